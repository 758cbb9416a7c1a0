// Steps whose variables live on the device, beside the same steps that pull and push them.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "common/exec/local_variables.h"
#include "common/exec/local_variables_test_util.h"
#include "common/exec/step_test_util.h"
#include "common/optimizers/optimizers.h"
#include "common/optimizers/resident_variables.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

using Batches = std::vector<std::vector<Tensor>>;

std::shared_ptr<Device> DeviceOfTest() {
  const char* name = std::getenv("COHORT_TEST_DEVICE");
  static const absl::StatusOr<std::shared_ptr<Device>> device =
      OpenDevice(name == nullptr || IsCpu(name) ? "simulated:0" : name);
  INFO(device.status());
  REQUIRE(device.ok());
  return *device;
}

v1::OptimizerSpec OptimizerNamed(const std::string& name,
                                 std::string_view sparse_update = "keras") {
  return OptimizerOf(name, {{"learning_rate", ConfigOf(0.05)}}, sparse_update);
}

std::unique_ptr<OptimizerRule> RuleOf(const std::string& name,
                                      std::string_view sparse_update = "keras") {
  auto rule = OptimizerRule::Create(OptimizerNamed(name, sparse_update));
  INFO(rule.status());
  REQUIRE(rule.ok());
  return *std::move(rule);
}

Tensor FirstValue(const Program& program, size_t v) {
  const ValueType& type = program.variables[v].type;
  Dims dims;
  for (const Dim& dim : type.dims) dims.push_back(dim.size);
  Tensor t(type.dtype, dims);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const size_t at = static_cast<size_t>(i);
    if (type.dtype == DType::kFloat32) {
      t.mutable_values<float>()[at] = static_cast<float>(testing::Weight(v, i));
    } else {
      t.mutable_values<double>()[at] = testing::Weight(v, i);
    }
  }
  return t;
}

std::vector<double> Numbers(const Tensor& t) {
  if (t.dtype() == DType::kFloat64) return {t.values<double>().begin(), t.values<double>().end()};
  return {t.values<float>().begin(), t.values<float>().end()};
}

// What steps leave behind.
struct Trained {
  std::vector<std::vector<double>> metrics, outputs;  // by step
  std::vector<double> weights;                        // by step
  std::vector<std::vector<double>> tensors;           // values and slots
  bool operator==(const Trained&) const = default;
};

void AddResults(const Executable& e, Trained* trained) {
  trained->metrics.emplace_back(e.metric_values().begin(), e.metric_values().end());
  trained->weights.push_back(e.weight());
  if (!e.program().outputs.empty()) trained->outputs.push_back(Numbers(e.output(0)));
}

std::unique_ptr<Executable> CompileOnDevice(const Program& program, CompileOptions options) {
  options.devices = {DeviceOfTest()};
  auto e = Executable::Compile(program, options);
  INFO(e.status());
  REQUIRE(e.ok());
  return *std::move(e);
}

std::unique_ptr<LocalVariables> MakeLocal(const Program& program,
                                          const v1::OptimizerSpec& optimizer,
                                          bool trainable = true) {
  std::vector<v1::VariableSpec> specs;
  for (const VariableDecl& decl : program.variables) {
    v1::VariableSpec& spec = specs.emplace_back();
    spec.set_name(decl.name);
    spec.set_dtype(static_cast<v1::DType>(decl.type.dtype));
    for (const Dim& dim : decl.type.dims) spec.add_dims(dim.size);
    spec.set_trainable(trainable);
    spec.mutable_initializer()->set_class_name("Zeros");
  }
  auto variables = LocalVariables::Create(specs, {&optimizer, 1});
  INFO(variables.status());
  REQUIRE(variables.ok());
  for (size_t v = 0; v < program.variables.size(); ++v) {
    testing::SetVariable(**variables, program.variables[v].name, FirstValue(program, v));
  }
  return *std::move(variables);
}

void AddTensors(const Program& program, const LocalVariables& variables, Trained* trained) {
  for (const VariableDecl& decl : program.variables) {
    for (const Tensor& tensor : testing::TensorsOf(variables, decl.name)) {
      trained->tensors.push_back(Numbers(tensor));
    }
  }
}

// The main steps run on the device, the optimizer on the CPU.
Trained PullAndPush(const Program& program, const v1::OptimizerSpec& optimizer,
                    const Batches& batches) {
  const auto variables = MakeLocal(program, optimizer);
  const auto e = CompileOnDevice(program, {});
  auto access = variables->ForProgram(e->program());
  REQUIRE(access.ok());
  Trained trained;
  for (uint64_t step = 0; step < batches.size(); ++step) {
    REQUIRE(e->Bind(batches[step]).ok());
    REQUIRE(e->Prepare({7, step, 0}).ok());
    const PullBatch pull{step, 0, e->pulls()};
    REQUIRE((*access)->Exchange(nullptr, &pull).ok());
    REQUIRE(e->Run().ok());
    PushBatch push;
    push.stamp.place = step;
    push.stamp.weight = e->weight();
    push.items = e->pushes();
    REQUIRE((*access)->Exchange(&push, nullptr).ok());
    AddResults(*e, &trained);
  }
  AddTensors(program, *variables, &trained);
  return trained;
}

// Variables that live on the device.
struct OnDevice {
  OnDevice(std::unique_ptr<LocalVariables> variables)
      : local(std::move(variables)), copies(DeviceCopies::On(std::vector{DeviceOfTest()})) {
    REQUIRE(local->tablet()->Reside(copies).ok());
  }
  ResidentVariables* variables() const { return copies.readers[0].get(); }

  std::unique_ptr<LocalVariables> local;
  DeviceCopies copies;
};

OnDevice MakeResident(const Program& program, const v1::OptimizerSpec& optimizer) {
  return OnDevice(MakeLocal(program, optimizer));
}

// With several lanes, each step is prepared before the one before it runs.
void RunResident(const OnDevice& variables, Executable* e, const Batches& batches, uint64_t first,
                 int lanes, Trained* trained) {
  auto access = variables.local->ForProgram(e->program(), e->device_parts());
  REQUIRE(access.ok());
  REQUIRE((*access)->on_device());
  const uint64_t ahead = static_cast<uint64_t>(lanes) - 1;
  for (uint64_t i = 0; i < batches.size() + ahead; ++i) {
    if (i < batches.size()) {
      e->UseLane(static_cast<int>(i % (ahead + 1)));
      REQUIRE(e->Bind(batches[i]).ok());
      REQUIRE(e->Prepare({7, first + i, 0}).ok());
      CHECK(e->pulls().empty());
    }
    if (i < ahead) continue;
    e->UseLane(static_cast<int>((i - ahead) % (ahead + 1)));
    const PullBatch pull{first + i - ahead, 0, e->pulls()};
    REQUIRE((*access)->Exchange(nullptr, &pull).ok());
    const absl::Status status = e->Run();
    INFO(status);
    REQUIRE(status.ok());
    CHECK(e->pushes().empty());
    PushBatch push;
    push.stamp.place = first + i - ahead;
    push.stamp.weight = e->weight();
    const absl::Status applied = (*access)->Exchange(&push, nullptr).status();
    INFO(applied);
    REQUIRE(applied.ok());
    AddResults(*e, trained);
  }
}

Trained StayOnDevice(const Program& program, const v1::OptimizerSpec& optimizer,
                     const Batches& batches, int lanes = 1) {
  const OnDevice variables = MakeResident(program, optimizer);
  const auto e = CompileOnDevice(program, {.lanes = lanes, .variables = variables.variables()});
  Trained trained;
  RunResident(variables, e.get(), batches, 0, lanes, &trained);
  AddTensors(program, *variables.local, &trained);
  return trained;
}

template <typename T>
Program Recommender(int64_t rows = 11) {
  return *testing::RecommenderProgram(DTypeOf<T>(), 16, rows, 3);
}
template <typename T>
Program Mlp(int64_t hidden = 5) {
  return *testing::MlpProgram(DTypeOf<T>(), 16, 12, hidden, 0.3);
}

// Full batches, shorter ones and an empty one.
template <typename T>
Batches RecommenderBatches(int64_t rows = 11) {
  Batches batches;
  for (const int64_t count : {16, 9, 0, 16, 1}) {
    batches.push_back(
        testing::RecommenderBatch<T>(count, rows, static_cast<int64_t>(batches.size())));
  }
  return batches;
}
template <typename T>
Batches MlpBatches() {
  Batches batches;
  for (const int64_t count : {16, 9, 0, 16, 1}) {
    batches.push_back(testing::MlpBatch<T>(count, 12, static_cast<int64_t>(batches.size())));
  }
  return batches;
}

TEST_CASE("resident variables train to the bits of those that are pulled and pushed") {
  for (const char* name : {"SGD", "Adam", "Adagrad", "RMSprop", "Ftrl"}) {
    for (const char* sparse_update : {"keras", "lazy"}) {
      const v1::OptimizerSpec spec = OptimizerNamed(name, sparse_update);
      INFO(name << ", " << sparse_update);
      CHECK(StayOnDevice(Recommender<float>(), spec, RecommenderBatches<float>()) ==
            PullAndPush(Recommender<float>(), spec, RecommenderBatches<float>()));
      CHECK(StayOnDevice(Recommender<double>(), spec, RecommenderBatches<double>()) ==
            PullAndPush(Recommender<double>(), spec, RecommenderBatches<double>()));
    }
    CHECK(StayOnDevice(Mlp<float>(), OptimizerNamed(name), MlpBatches<float>()) ==
          PullAndPush(Mlp<float>(), OptimizerNamed(name), MlpBatches<float>()));
  }
}

TEST_CASE("steps that are prepared ahead see the resident variables of the step before") {
  const auto adam = OptimizerNamed("Adam", "lazy");
  const auto batches = RecommenderBatches<float>();
  CHECK(StayOnDevice(Recommender<float>(), adam, batches, /*lanes=*/3) ==
        StayOnDevice(Recommender<float>(), adam, batches));
}

// A program that pushes what is not computed, moving averages and sums; x is [batch, 1].
Program OtherPushes() {
  ProgramBuilder b("pushes");
  const int batch = b.AddSymbol("batch", 4);
  const Expr x = b.Input("x", testing::Type(DType::kFloat32, {{4, batch}, {1}}));
  const Expr step = b.Input("step", testing::Type(DType::kFloat32, {{2}}));
  const Expr w = b.Read("w", testing::Type(DType::kFloat32, {{1}}));
  b.Read("sum", testing::Type(DType::kFloat32, {{2}}));
  b.Read("mean", testing::Type(DType::kFloat32, {{1}}));
  const Expr loss = ReduceSum(Square(x * w - b.Scalar(1, DType::kFloat32)));
  b.SetLoss(DimSize(x, 0));
  REQUIRE(PushGradients(&b, loss).ok());
  b.AddPush({1, PushKind::kAssignAdd, step.id(), kNoValue, 0});
  b.AddPush({2, PushKind::kEma, ReduceSum(x, {0}).id(), kNoValue, 0.99});
  b.AddMetric("loss", loss, DimSize(x, 0));
  auto program = std::move(b).Build();
  INFO(program.status());
  REQUIRE(program.ok());
  return *std::move(program);
}

void Write(ResidentVariables* variables, const std::string& name, int slot, const Tensor& value) {
  const std::span<const uint8_t> bytes(static_cast<const uint8_t*>(value.raw()), value.num_bytes());
  REQUIRE(variables->WriteRows(name, slot, 0, bytes).ok());
}

// The owner of variables may refuse an update, or apply its groups one by one.
TEST_CASE("an update of resident variables is applied by group, when it is asked for") {
  const auto rule = RuleOf("Adam");
  const Program program = Mlp<float>();
  const auto batches = MlpBatches<float>();
  const auto variables = std::make_unique<ResidentVariables>(DeviceOfTest());
  for (uint32_t v = 0; v < program.variables.size(); ++v) {
    const Tensor value = FirstValue(program, v);
    const std::shared_ptr<const OptimizerRule> lent(std::shared_ptr<void>(), rule.get());
    REQUIRE(variables
                ->Reserve({.name = program.variables[v].name,
                           .dtype = value.dtype(),
                           .dims = value.dims(),
                           .rule = lent,
                           .group = v,
                           .slot_rows = value.dims()[0]})
                .ok());
    const Tensor zeros = Tensor::Zeros(value.dtype(), value.dims());
    Write(variables.get(), program.variables[v].name, -1, value);
    for (int slot = 0; slot < 2; ++slot) {
      Write(variables.get(), program.variables[v].name, slot, zeros);
    }
  }
  const auto e = CompileOnDevice(program, {.variables = variables.get()});
  const auto run = [&](size_t batch) {
    REQUIRE(e->Bind(batches[batch]).ok());
    REQUIRE(e->Prepare({7, batch, 0}).ok());
    REQUIRE(e->Run().ok());
  };
  const auto all = [&] {
    std::vector<std::vector<double>> tensors;
    for (size_t v = 0; v < program.variables.size(); ++v) {
      for (int slot = -1; slot < 2; ++slot) {
        Tensor t = FirstValue(program, v);
        const std::span<uint8_t> bytes(static_cast<uint8_t*>(t.raw()), t.num_bytes());
        REQUIRE(variables->ReadRows(program.variables[v].name, slot, 0, bytes).ok());
        tensors.push_back(Numbers(t));
      }
    }
    return tensors;
  };
  const auto first = all();
  run(3);  // refused
  CHECK(all() == first);
  run(0);
  CHECK(e->device_parts().update->Apply(1, 0).ok());
  const auto one = all();
  for (size_t i = 0; i < first.size(); ++i) CHECK((one[i] == first[i]) == (i / 3 != 1));
  for (const uint32_t group : {0u, 2u, 3u, 99u})
    CHECK(e->device_parts().update->Apply(group, 0).ok());
  CHECK(all() == PullAndPush(program, OptimizerNamed("Adam"), {batches[0]}).tensors);
}

TEST_CASE("moving averages and sums of resident variables") {
  Batches batches;
  for (const float first : {1.0f, -0.5f, 3.0f}) {
    batches.push_back({Tensor::FromValues<float>({3, 1}, std::vector<float>{first, 0.25f, 2}),
                       Tensor::FromValues<float>({2}, std::vector<float>{first * 2, 5})});
  }
  CHECK(StayOnDevice(OtherPushes(), OptimizerNamed("SGD"), batches) ==
        PullAndPush(OtherPushes(), OptimizerNamed("SGD"), batches));
}

TEST_CASE("training continues from the variables that a device had") {
  const auto adam = OptimizerNamed("Adam");
  const Program program = Recommender<float>();
  const auto all = RecommenderBatches<float>();
  const Batches first(all.begin(), all.begin() + 2), rest(all.begin() + 2, all.end());
  Trained halves;
  const OnDevice before = MakeResident(program, adam);
  const auto e = CompileOnDevice(program, {.variables = before.variables()});
  RunResident(before, e.get(), first, 0, 1, &halves);
  auto local = MakeLocal(program, adam);
  const absl::Status filled = local->tablet()->Fill(
      [&](const ShardInfo& shard, int slot, int64_t row, int64_t, std::span<uint8_t> out) {
        const auto tensors = testing::TensorsOf(*before.local, shard.variable);
        const auto* const from =
            static_cast<const uint8_t*>(tensors[static_cast<size_t>(slot + 1)].raw());
        std::memcpy(out.data(), from + static_cast<size_t>(row) * shard.row_bytes(), out.size());
        return absl::OkStatus();
      });
  REQUIRE(filled.ok());
  const OnDevice after(std::move(local));
  const auto continued = CompileOnDevice(program, {.variables = after.variables()});
  RunResident(after, continued.get(), rest, 2, 1, &halves);
  AddTensors(program, *after.local, &halves);
  CHECK(halves == StayOnDevice(program, adam, all));
}

int64_t BytesOfStep(const Program& program, const std::vector<Tensor>& batch, bool resident) {
  const OnDevice variables = MakeResident(program, OptimizerNamed("Adam", "lazy"));
  const auto e =
      CompileOnDevice(program, {.variables = resident ? variables.variables() : nullptr});
  REQUIRE(e->Bind(batch).ok());
  REQUIRE(e->Prepare({1, 0, 0}).ok());
  if (!resident) testing::FillPulls<float>(e.get());
  REQUIRE(e->Run().ok());
  CHECK((e->device_parts().update != nullptr) == resident);
  return e->transfer_bytes();
}

TEST_CASE(
    "a step with resident variables copies the batch and metrics, however large the model is") {
  const auto mlp = testing::MlpBatch<float>(16, 12, 0);
  const int64_t bytes = BytesOfStep(Mlp<float>(5), mlp, true);
  // A kernel more or less: large sums are computed in two parts.
  CHECK(BytesOfStep(Mlp<float>(500), mlp, true) < bytes + 256);
  // 16 examples of 12 numbers and a label, 16 * 10 logits, and the bodies of all ops.
  CHECK(bytes > 16 * (12 * 4 + 8 + 10 * 4));
  CHECK(bytes < 16 * (12 * 4 + 8 + 10 * 4) + 8192);
  // Each of 8510 weights goes up and its gradient down.
  CHECK(BytesOfStep(Mlp<float>(500), mlp, false) > 2 * 4 * (12 * 500 + 500 + 500 * 10 + 10));

  const auto ids = testing::RecommenderBatch<float>(16, 11, 0);
  const int64_t few = BytesOfStep(Recommender<float>(11), ids, true);
  CHECK(BytesOfStep(Recommender<float>(100'000), ids, true) == few);
  CHECK(BytesOfStep(Recommender<float>(11), ids, false) != few);
}

TEST_CASE("ids beyond a resident table are refused by name") {
  const Program program = Recommender<float>(4);
  const OnDevice variables = MakeResident(program, OptimizerNamed("SGD"));
  const auto e = CompileOnDevice(program, {.variables = variables.variables()});
  REQUIRE(e->Bind(testing::RecommenderBatch<float>(16, 11, 0)).ok());
  REQUIRE(e->Prepare({1, 0, 0}).ok());
  const absl::Status status = e->Run();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(status.message()).find("row 10 of variable 'table', which has 4 rows") !=
        std::string::npos);
}

TEST_CASE("programs that cannot run with resident variables are refused") {
  const auto sgd = OptimizerNamed("SGD");
  const Program program = Mlp<float>();
  const auto compile = [&](const ResidentVariables* variables,
                           std::vector<std::shared_ptr<Device>> devices) {
    return Executable::Compile(program, {.devices = std::move(devices), .variables = variables})
        .status()
        .code();
  };
  const OnDevice variables = MakeResident(program, sgd);
  CHECK(compile(variables.variables(), {}) == absl::StatusCode::kInvalidArgument);
  CHECK(compile(variables.variables(), {DeviceOfTest(), DeviceOfTest()}) ==
        absl::StatusCode::kUnimplemented);
  CHECK(compile(OnDevice(MakeLocal(program, sgd, /*trainable=*/false)).variables(),
                {DeviceOfTest()}) == absl::StatusCode::kFailedPrecondition);
  const ResidentVariables none(DeviceOfTest());
  CHECK(compile(&none, {DeviceOfTest()}) == absl::StatusCode::kNotFound);
  CHECK(compile(MakeResident(Mlp<float>(6), sgd).variables(), {DeviceOfTest()}) ==
        absl::StatusCode::kInvalidArgument);
  CHECK(variables.variables()->Reserve({.name = "dense/kernel", .dtype = DType::kFloat32}).code() ==
        absl::StatusCode::kAlreadyExists);
  const std::vector<uint8_t> bytes(1 << 20);
  CHECK(variables.variables()->WriteRows("dense/bias", -1, 0, bytes).code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(variables.variables()->WriteRows("dense", -1, 0, bytes).code() ==
        absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace cohort
