// Programs that are cut where their layers name devices compute what the whole program computes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "common/exec/local_devices.h"
#include "common/exec/step_test_util.h"
#include "common/exec/test_device.h"
#include "common/graph/segments.h"

namespace cohort {
namespace {

using testing::Type;

constexpr int64_t kCapacity = 8;

size_t CountSegments(const Program& program) {
  return static_cast<size_t>(
      std::ranges::count_if(program.nodes, [](const Node& node) { return node.op == "segment"; }));
}

// Makes a random model: an embedding, hidden layers of several kinds, some of them called twice,
// and two metrics. Each layer runs on one of `devices`.
class RandomModel {
 public:
  RandomModel(uint32_t seed, const std::vector<std::string>& devices, DType dtype)
      : random_(seed), chosen_(seed + 1), devices_(devices), dtype_(dtype) {}

  absl::StatusOr<Program> Make() {
    const int batch = b_.AddSymbol("batch", kCapacity);
    const Expr ids = b_.Input("ids", Type(DType::kInt64, {{kCapacity, batch}, {3}}));
    const Expr x = b_.Input("x", Type(dtype_, {{kCapacity, batch}, {5}}));
    const Expr labels = b_.Input("labels", Type(DType::kInt64, {{kCapacity, batch}}));
    Begin("embedding");
    const auto [keys, inverse] = Unique(ids);
    const Expr rows = Gather(b_.ReadRows("table", Type(dtype_, {{20}, {4}}), keys), inverse);
    Expr h = Concat(std::vector<Expr>{Reshape(rows, {-1, 12}), x}, 1);
    const int layers = 2 + static_cast<int>(random_() % 5);
    for (int i = 0; i < layers; ++i) h = Layer(h, i);
    Begin("logits");
    const Expr logits = Dense(h, 10, "logits");
    Begin("");
    const Expr loss = ReduceSum(SparseSoftmaxCrossEntropy(labels, logits));
    b_.SetLoss(DimSize(labels, 0, dtype_));
    b_.AddMetric("loss", loss, DimSize(labels, 0, dtype_));
    b_.AddMetric("accuracy", ReduceSum(Cast(Equal(ArgMax(logits), labels), dtype_)),
                 DimSize(labels, 0, dtype_));
    b_.AddOutput("logits", logits);
    COHORT_RETURN_IF_ERROR(PushGradients(&b_, loss));
    return std::move(b_).Build();
  }

 private:
  void Begin(const std::string& layer) {
    b_.SetScope(layer);
    b_.SetDevice(layer.empty() ? "" : devices_[chosen_() % devices_.size()]);
  }

  Expr Dense(Expr x, int64_t units, const std::string& name) {
    const Dim in = x.type().dims[1];
    const Expr kernel = b_.Read(name + "/kernel", Type(dtype_, {in, {units}}));
    return MatMul(x, kernel) + b_.Read(name + "/bias", Type(dtype_, {{units}}));
  }

  Expr Layer(Expr x, int i) {
    const std::string name = "layer" + std::to_string(i);
    const int64_t width = x.type().dims[1].size;
    Begin(name);
    switch (random_() % 6) {
      case 0:
        return Relu(Dense(x, 7, name));
      case 1: {  // called twice
        const Expr once = Tanh(Dense(x, width, name));
        return Tanh(Dense(once, width, name)) + x;
      }
      case 2:
        return cohort::Dropout(Dense(x, 6, name), 0.3, 5).first;
      case 3: {
        const ValueType c = Type(dtype_, {{width}});
        const auto norm =
            BatchNormTrain(x, b_.Read(name + "/gamma", c), b_.Read(name + "/beta", c), 1e-3);
        const int mean = b_.DeclareVariable(name + "/moving_mean", c);
        b_.AddPush({mean, PushKind::kEma, norm.mean.id(), kNoValue, 0.9});
        return norm.y;
      }
      case 4:
        return Softmax(x) * RandomNormalLike(x, 9);
      default:
        return Reshape(Transpose(Reshape(x, {-1, width, 1}), {0, 2, 1}), {-1, width});
    }
  }

  std::mt19937 random_;  // draws the model
  std::mt19937 chosen_;  // draws the devices
  const std::vector<std::string> devices_;
  const DType dtype_;
  ProgramBuilder b_{"model"};
};

template <typename T>
std::vector<Tensor> Batch(int64_t count) {
  Tensor ids(DType::kInt64, {count, 3});
  for (int64_t i = 0; i < count * 3; ++i)
    ids.mutable_values<int64_t>()[static_cast<size_t>(i)] = (i * 7 + i * i) % 20;
  std::vector<Tensor> batch = testing::MlpBatch<T>(count, 5, 2);
  batch.insert(batch.begin(), ids);
  return batch;
}

// Everything that a step shows to the outside, as doubles.
template <typename T>
std::vector<double> RunStep(Executable* e, int lane, int64_t count) {
  e->UseLane(lane);
  REQUIRE(e->Bind(Batch<T>(count)).ok());
  REQUIRE(e->Prepare({.seed = 3, .place = 17, .ordinal = 1}).ok());
  testing::FillPulls<T>(e);
  const absl::Status run = e->Run();
  INFO(run);
  REQUIRE(run.ok());
  std::vector<double> seen(e->metric_values().begin(), e->metric_values().end());
  seen.push_back(e->weight());
  for (const PushItem& push : e->pushes()) {
    const ValueType& type = e->program().variables[static_cast<size_t>(push.variable)].type;
    int64_t n = CapacityElements(type);
    if (push.sparse) n = n / type.dims[0].size * static_cast<int64_t>(push.keys.size());
    seen.insert(seen.end(), push.keys.begin(), push.keys.end());
    const T* const values = static_cast<const T*>(push.value);
    seen.insert(seen.end(), values, values + n);
  }
  const Tensor logits = e->output(0);
  seen.insert(seen.end(), logits.values<T>().begin(), logits.values<T>().end());
  return seen;
}

std::unique_ptr<Executable> Compiled(Program program, SegmentDevices* devices) {
  CompileOptions options = testing::OnTestDevice({.lanes = 2});
  if (options.devices.size() > 1)
    options.devices.resize(1);  // each would normalize its own examples
  options.segment_devices = devices;
  auto executable = Executable::Compile(std::move(program), options);
  INFO(executable.status());
  REQUIRE(executable.ok());
  return *std::move(executable);
}

// Runs random models with and without cuts, and returns the number of segments in all. `tolerance`:
// relative; 0: the same bits.
template <typename T>
size_t CompareModels(const std::vector<std::string>& names, uint32_t models, double tolerance) {
  LocalDevices devices(testing::OnTestDevice().devices, {}, /*threads=*/1);
  size_t segments = 0;
  for (uint32_t seed = 0; seed < models; ++seed) {
    CAPTURE(seed, names);
    const auto program = RandomModel(seed, names, DTypeOf<T>()).Make();
    INFO(program.status());
    REQUIRE(program.ok());
    const auto whole = Compiled(*program, nullptr);
    const auto cut = Compiled(*program, &devices);
    segments += CountSegments(cut->program());
    for (const int64_t count : {kCapacity, int64_t{3}, kCapacity}) {
      for (const int lane : {0, 1}) {
        const std::vector<double> expected = RunStep<T>(whole.get(), lane, count);
        const std::vector<double> got = RunStep<T>(cut.get(), lane, count);
        REQUIRE(got.size() == expected.size());
        for (size_t i = 0; i < got.size(); ++i) {
          CAPTURE(i);
          if (tolerance == 0) REQUIRE(got[i] == expected[i]);
          REQUIRE(got[i] == Approx(expected[i]).epsilon(tolerance).margin(tolerance));
        }
      }
    }
  }
  return segments;
}

bool OnCpu() { return testing::OnTestDevice().devices.empty(); }

TEST_CASE("Cuts between devices of the CPU do not change a bit", "[model_parallel]") {
  const std::vector<std::string> names = {"", "cpu:1", "cpu:2", "cpu:0"};
  CHECK(CompareModels<float>(names, 40, OnCpu() ? 0 : 1e-3) > 100);
  CHECK(CompareModels<double>(names, 40, OnCpu() ? 0 : 1e-9) > 100);
}

TEST_CASE("Layers run on accelerators beside the worker's own device", "[model_parallel]") {
  const std::vector<std::string> names = {"", "simulated:2", "cpu:1", "simulated:3"};
  CHECK(CompareModels<float>(names, 15, 1e-3) > 30);
  CHECK(CompareModels<double>(names, 15, 1e-9) > 30);
}

TEST_CASE("A layer is two segments: its forward and its backward pass", "[model_parallel]") {
  ProgramBuilder b("mlp");
  const int batch = b.AddSymbol("batch", kCapacity);
  Expr h = b.Input("x", Type(DType::kFloat32, {{kCapacity, batch}, {4}}));
  for (const std::string name : {"first", "middle", "last"}) {
    b.SetScope(name);
    b.SetDevice(name == "middle" ? "cpu:1" : "");
    h = Relu(MatMul(h, b.Read(name, Type(DType::kFloat32, {{4}, {4}}))));
  }
  REQUIRE(PushGradients(&b, ReduceSum(h)).ok());
  b.SetLoss(DimSize(h, 0));
  const auto program = std::move(b).Build();
  INFO(program.status());
  REQUIRE(program.ok());
  const Program cut = CutAtDevices(*program, [](const std::string& device) { return device; });
  std::vector<const Node*> segments;
  for (const Node& node : cut.nodes) {
    if (node.op == "segment") segments.push_back(&node);
  }
  REQUIRE(segments.size() == 2);
  // x and kernel go there; the activation comes back.
  CHECK(segments[0]->inputs.size() == 2);
  CHECK(segments[0]->outputs.size() == 1);
  CHECK(segments[0]->name == "middle");
  // The gradients with respect to the input and the kernel come back.
  CHECK(segments[1]->outputs.size() == 2);
  LocalDevices devices({}, {}, 1);
  auto executable = Executable::Compile(*program, {.segment_devices = &devices});
  REQUIRE(executable.ok());
  CHECK(CountSegments((*executable)->program()) == 2);
}

TEST_CASE("Without devices for layers their names are ignored", "[model_parallel]") {
  const auto program = RandomModel(1, {"cuda:900"}, DType::kFloat32).Make();
  REQUIRE(program.ok());
  CHECK(CountSegments(Compiled(*program, nullptr)->program()) == 0);
}

TEST_CASE("A device that is not there is refused", "[model_parallel]") {
  LocalDevices devices({}, {}, 1);
  const auto program = RandomModel(1, {"cuda:900"}, DType::kFloat32).Make();
  REQUIRE(program.ok());
  const auto executable = Executable::Compile(*program, {.segment_devices = &devices});
  REQUIRE(!executable.ok());
  CHECK(std::string(executable.status().message()).find("cuda:900") != std::string::npos);
}

TEST_CASE("An error in a segment names the node", "[model_parallel]") {
  ProgramBuilder b("lookup");
  const int batch = b.AddSymbol("batch", kCapacity);
  const Expr at = b.Input("at", Type(DType::kInt64, {{kCapacity, batch}}));
  b.SetScope("rows");
  b.SetDevice("cpu:1");
  b.AddOutput("rows", Gather(b.Read("table", Type(DType::kFloat32, {{4}, {2}})), at));
  const auto program = std::move(b).Build();
  REQUIRE(program.ok());
  LocalDevices devices({}, {}, 1);
  auto executable = Executable::Compile(*program, {.segment_devices = &devices});
  REQUIRE(executable.ok());
  REQUIRE((*executable)->Bind(std::vector{Tensor::FromValues<int64_t>({2}, {{1, 9}})}).ok());
  REQUIRE((*executable)->Prepare({}).ok());
  testing::FillPulls<float>(executable->get());
  const absl::Status status = (*executable)->Run();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()).find("\"rows\" (gather)") != std::string::npos);
}

TEST_CASE("Bytes that cross the cuts are counted", "[model_parallel]") {
  ProgramBuilder b("layer");
  const int batch = b.AddSymbol("batch", kCapacity);
  const Expr x = b.Input("x", Type(DType::kFloat32, {{kCapacity, batch}, {4}}));
  b.SetDevice("simulated:0");
  b.AddOutput("y", MatMul(x, b.Read("kernel", Type(DType::kFloat32, {{4}, {2}}))));
  const auto program = std::move(b).Build();
  REQUIRE(program.ok());
  LocalDevices devices({}, {}, 1);
  auto executable = Executable::Compile(*program, {.segment_devices = &devices});
  REQUIRE(executable.ok());
  REQUIRE((*executable)->Bind(std::vector{Tensor::Zeros(DType::kFloat32, {kCapacity, 4})}).ok());
  REQUIRE((*executable)->Prepare({}).ok());
  testing::FillPulls<float>(executable->get());
  REQUIRE((*executable)->Run().ok());
  const int64_t values = kCapacity * 4 + 4 * 2 + kCapacity * 2;
  CHECK((*executable)->transfer_bytes() >= values * 4);
}

}  // namespace
}  // namespace cohort
