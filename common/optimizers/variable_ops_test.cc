// The ops on variables in the memory of a device beside the CPU's rules. On the device that
// COHORT_TEST_DEVICE names, else on the simulated one.
#include "common/optimizers/variable_ops.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "common/device/device.h"
#include "common/optimizers/optimizers.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

constexpr uint64_t kSteps = 20;

std::shared_ptr<Device> DeviceOfTest() {
  const char* name = std::getenv("COHORT_TEST_DEVICE");
  static const absl::StatusOr<std::shared_ptr<Device>> device =
      OpenDevice(name == nullptr || IsCpu(name) ? "simulated:0" : name);
  INFO(device.status());
  REQUIRE(device.ok());
  return *device;
}
const VariableOps& OpsOfTest() {
  const auto ops = VariableOps::Of(DeviceOfTest()->kind());
  INFO(ops.status());
  REQUIRE(ops.ok());
  return **ops;
}

DeviceMemory OnDevice(size_t bytes) {
  auto memory = DeviceOfTest()->Allocate(bytes, "a test");
  REQUIRE(memory.ok());
  return *std::move(memory);
}
DeviceMemory Pinned(size_t bytes) {
  auto memory = DeviceOfTest()->AllocatePinned(bytes, "a test");
  REQUIRE(memory.ok());
  return *std::move(memory);
}

template <typename T>
DeviceMemory Uploaded(const std::vector<T>& values) {
  DeviceMemory memory = OnDevice(values.size() * sizeof(T));
  REQUIRE(
      DeviceOfTest()->CopyToDevice(memory.data(), values.data(), values.size() * sizeof(T)).ok());
  return memory;
}

// The same bits on the simulated device. A GPU's powers have other last bits than the CPU's.
template <typename T>
void CheckSame(const std::vector<T>& got, const std::vector<T>& expected) {
  REQUIRE(got.size() == expected.size());
  const bool exact = DeviceOfTest()->kind() == "simulated";
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("element " << i << ": " << got[i] << ", expected " << expected[i]);
    const T error = std::abs(got[i] - expected[i]);
    const T limit = std::abs(expected[i]) * (sizeof(T) == 4 ? T(1e-5) : T(1e-12)) + T(1e-30);
    REQUIRE((exact ? got[i] == expected[i] : error <= limit));
  }
}

// A graph of ops and what it copies, made when it is complete.
class Graph {
 public:
  // Uploads before the ops that are added later.
  void Upload(const DeviceMemory& to, const DeviceMemory& from) {
    plan_.AddCopy("upload", {to.data(), from.data(), to.bytes(), /*to_device=*/true});
  }
  void Add(std::unique_ptr<VariableOp> op) {
    bodies_.push_back(OnDevice(op->body_bytes()));
    staged_.push_back(Pinned(op->body_bytes()));
    Upload(bodies_.back(), staged_.back());
    op->AddTo(&plan_, bodies_.back().data());
    ops_.push_back(std::move(op));
  }
  void Add(absl::StatusOr<std::unique_ptr<VariableOp>> op) {
    INFO(op.status());
    REQUIRE(op.ok());
    Add(*std::move(op));
  }
  void Download(const DeviceMemory& to, const DeviceMemory& from) {
    plan_.AddCopy("download", {to.data(), from.data(), from.bytes(), /*to_device=*/false});
  }
  void Run(const VariableRun& run) {
    for (size_t i = 0; i < ops_.size(); ++i) ops_[i]->WriteBody(run, staged_[i].data());
    if (graph_ == nullptr) {
      auto graph = DeviceOfTest()->Instantiate(plan_);
      INFO(graph.status());
      REQUIRE(graph.ok());
      graph_ = *std::move(graph);
    }
    REQUIRE(graph_->Launch().ok());
    REQUIRE(graph_->Wait().ok());
  }

 private:
  GraphPlan plan_;
  std::vector<std::unique_ptr<VariableOp>> ops_;
  std::vector<DeviceMemory> bodies_, staged_;
  std::unique_ptr<DeviceGraph> graph_;
};

template <typename T>
std::vector<T> ValuesOf(const DeviceMemory& host) {
  std::vector<T> values(host.bytes() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), host.data(), host.bytes());
  return values;
}

// Numbers that differ from step to step and from row to row.
double Number(uint64_t step, int64_t i) {
  return std::sin(static_cast<double>(i) * 1.7 + static_cast<double>(step) * 0.9);
}

// The keys of a step: none, some, or as many as there is room for.
std::vector<int64_t> KeysOf(uint64_t step, int64_t first_row, int64_t rows, int64_t capacity) {
  const int64_t wanted = step % 4 == 3 ? capacity : std::min<int64_t>(capacity, step % 4 * 3);
  std::set<int64_t> keys;
  for (int64_t i = 0; static_cast<int64_t>(keys.size()) < std::min(wanted, rows); ++i) {
    keys.insert(first_row + (i * 7 + static_cast<int64_t>(step) * 5) % rows);
  }
  return {keys.begin(), keys.end()};
}

struct Shape {
  int64_t rows, row_elements;
  int64_t capacity = 0;  // most keys in a step; 0: dense
  int64_t first_row = 0;
};

// One variable with its slots, on the CPU and on the device, after the same steps.
template <typename T>
class TwoVariables {
 public:
  TwoVariables(const OptimizerRule& rule, const Shape& shape) : rule_(rule), shape_(shape) {
    for (int64_t i = 0; i < elements(); ++i) w_.push_back(static_cast<T>(Number(100, i)));
    for (const SlotInfo& slot : rule.slots()) {
      slots_.emplace_back(w_.size(), static_cast<T>(slot.initial_value));
    }
    on_device_.push_back(Uploaded(w_));
    for (const std::vector<T>& slot : slots_) on_device_.push_back(Uploaded(slot));
    const int64_t pushed = sparse() ? shape.capacity : shape.rows;
    const size_t pushed_bytes = static_cast<size_t>(pushed * shape.row_elements) * sizeof(T);
    gradient_ = OnDevice(pushed_bytes);
    staged_gradient_ = Pinned(pushed_bytes);
    keys_ = OnDevice(static_cast<size_t>(shape.capacity) * sizeof(int64_t));
    staged_keys_ = Pinned(keys_.bytes());
    weight_ = OnDevice(sizeof(T));
    staged_weight_ = Pinned(sizeof(T));
    scale_ = OnDevice(sizeof(double));
    Plan();
  }

  void Step(uint64_t step) {
    const std::vector<int64_t> keys =
        sparse() ? KeysOf(step, shape_.first_row, shape_.rows, shape_.capacity)
                 : std::vector<int64_t>();
    const int64_t rows = sparse() ? static_cast<int64_t>(keys.size()) : shape_.rows;
    // What lies after the keys and rows of this step is not to be read.
    std::memset(staged_gradient_.data(), 0xff, staged_gradient_.bytes());
    std::memset(staged_keys_.data(), 0xff, staged_keys_.bytes());
    T* const gradient = reinterpret_cast<T*>(staged_gradient_.data());
    for (int64_t i = 0; i < rows * shape_.row_elements; ++i) {
      gradient[i] = static_cast<T>(Number(step, i) * 3);
    }
    if (!keys.empty()) std::memcpy(staged_keys_.data(), keys.data(), keys.size() * 8);
    const T weight = step == 6 ? T{0} : static_cast<T>(3 + step % 2);
    std::memcpy(staged_weight_.data(), &weight, sizeof(weight));
    ApplyOnCpu(step, keys, gradient, static_cast<double>(weight));
    graph_.Run({.step = step, .keys = static_cast<int64_t>(keys.size())});
  }

  void Check() const {
    CheckSame(ValuesOf<T>(downloads_[0]), w_);
    for (size_t s = 0; s < slots_.size(); ++s) CheckSame(ValuesOf<T>(downloads_[s + 1]), slots_[s]);
  }

 private:
  bool sparse() const { return shape_.capacity > 0; }
  int64_t elements() const { return shape_.rows * shape_.row_elements; }

  void Plan() {
    DeviceVariable variable = {.name = "w",
                               .dtype = DTypeOf<T>(),
                               .first_row = shape_.first_row,
                               .rows = shape_.rows,
                               .row_elements = shape_.row_elements,
                               .value = on_device_[0].data()};
    for (size_t s = 0; s < slots_.size(); ++s) variable.slots[s] = on_device_[s + 1].data();
    DevicePush push = {.values = gradient_.data()};
    if (sparse()) {
      push.rows = {reinterpret_cast<const int64_t*>(keys_.data()), shape_.capacity};
    }
    auto* const scale = reinterpret_cast<double*>(scale_.data());
    graph_.Upload(gradient_, staged_gradient_);
    graph_.Upload(keys_, staged_keys_);
    graph_.Upload(weight_, staged_weight_);
    graph_.Add(OpsOfTest().GradientScale(weight_.data(), DTypeOf<T>(), scale));
    graph_.Add(OpsOfTest().Update(&rule_, variable, push, scale));
    for (const DeviceMemory& tensor : on_device_) {
      downloads_.push_back(Pinned(tensor.bytes()));
      graph_.Download(downloads_.back(), tensor);
    }
  }

  void ApplyOnCpu(uint64_t step, const std::vector<int64_t>& keys, const T* gradient,
                  double weight) {
    UpdateTarget target;
    target.dtype = DTypeOf<T>();
    target.variable_in = target.variable_out = w_.data();
    for (size_t s = 0; s < slots_.size(); ++s) {
      target.slots_in[s] = target.slots_out[s] = slots_[s].data();
    }
    if (!sparse()) {
      rule_.ApplyDense({target, elements(), gradient, weight, step});
    } else {
      rule_.ApplyRows({target, shape_.first_row, shape_.rows, shape_.row_elements, keys, gradient,
                       weight, step});
    }
  }

  const OptimizerRule& rule_;
  const Shape shape_;
  std::vector<T> w_;
  std::vector<std::vector<T>> slots_;
  std::vector<DeviceMemory> on_device_;  // value, slots
  std::vector<DeviceMemory> downloads_;
  DeviceMemory gradient_, keys_, weight_, scale_, staged_gradient_, staged_keys_, staged_weight_;
  Graph graph_;
};

using Arguments = std::vector<std::pair<std::string, v1::ConfigValue>>;

struct RuleCase {
  std::string name;
  Arguments arguments;
};

// Each option of each rule.
std::vector<RuleCase> RuleCases() {
  const auto decay = std::make_pair(std::string("weight_decay"), ConfigOf(0.02));
  return {
      {"SGD", {}},
      {"SGD", {decay}},
      {"SGD", {{"momentum", ConfigOf(0.9)}}},
      {"SGD", {{"momentum", ConfigOf(0.9)}, {"nesterov", ConfigOf(true)}, decay}},
      {"Adam", {}},
      {"Adam", {{"beta_1", ConfigOf(0.8)}, {"beta_2", ConfigOf(0.99)}, decay}},
      {"Adam", {{"amsgrad", ConfigOf(true)}}},
      {"AdamW", {}},
      {"AdamW", {{"amsgrad", ConfigOf(true)}, decay}},
      {"RMSprop", {}},
      {"RMSprop", {{"momentum", ConfigOf(0.9)}, decay}},
      {"RMSprop", {{"centered", ConfigOf(true)}}},
      {"RMSprop", {{"momentum", ConfigOf(0.5)}, {"centered", ConfigOf(true)}}},
      {"Adagrad", {}},
      {"Adagrad", {{"initial_accumulator_value", ConfigOf(0.5)}, decay}},
      {"Ftrl", {}},
      {"Ftrl", {{"learning_rate_power", ConfigOf(-0.3)}, {"beta", ConfigOf(0.1)}}},
      {"Ftrl",
       {{"l1_regularization_strength", ConfigOf(0.05)},
        {"l2_regularization_strength", ConfigOf(0.1)},
        {"l2_shrinkage_regularization_strength", ConfigOf(0.2)},
        decay}},
      {"Adadelta", {}},
      {"Adadelta", {decay}},
      {"Adamax", {}},
      {"Adamax", {decay}},
      {"Lion", {}},
      {"Lion", {decay}},
      {"Nadam", {}},
      {"Nadam", {decay}},
      {"ScheduleFreeAdamW", {}},
      {"ScheduleFreeAdamW", {{"warmup_steps", ConfigOf(3)}, decay}},
      {"TorchAdagrad", {{"lr_decay", ConfigOf(0.1)}, decay}},
      {"TorchAdam", {decay}},
      {"TorchAdam", {{"amsgrad", ConfigOf(true)}}},
      {"TorchAdamW", {decay}},
      {"TorchRMSprop", {}},
      {"TorchRMSprop", {{"momentum", ConfigOf(0.5)}, {"centered", ConfigOf(true)}, decay}},
      {"TorchSGD", {decay}},
      {"TorchSGD", {{"momentum", ConfigOf(0.9)}, {"dampening", ConfigOf(0.1)}, decay}},
      {"TorchSGD", {{"momentum", ConfigOf(0.9)}, {"nesterov", ConfigOf(true)}}},
  };
}

template <typename T>
void CheckRule(const RuleCase& c, const char* sparse_update, const Shape& shape) {
  Arguments arguments = c.arguments;
  arguments.emplace_back("learning_rate", ConfigOf(0.1));
  const v1::OptimizerSpec spec = OptimizerOf(c.name, arguments, sparse_update);
  INFO(spec.ShortDebugString());
  INFO(shape.rows << " rows of " << shape.row_elements << ", " << shape.capacity << " keys");
  const auto rule = OptimizerRule::Create(spec);
  REQUIRE(rule.ok());
  TwoVariables<T> variables(**rule, shape);
  for (uint64_t step = 0; step < kSteps; ++step) {
    variables.Step(step);
    INFO("step " << step);
    variables.Check();
  }
}

TEST_CASE("every rule updates whole variables on a device as on the CPU") {
  for (const RuleCase& c : RuleCases()) {
    for (const int64_t elements : {0, 1, 37}) {
      CheckRule<float>(c, "keras", {.rows = elements, .row_elements = 1});
      CheckRule<double>(c, "keras", {.rows = elements, .row_elements = 1});
    }
  }
}

TEST_CASE("every rule updates rows on a device as on the CPU") {
  for (const RuleCase& c : RuleCases()) {
    for (const char* sparse_update : {"keras", "lazy"}) {
      for (const Shape& shape :
           {Shape{.rows = 11, .row_elements = 3, .capacity = 7},
            Shape{.rows = 1, .row_elements = 1, .capacity = 1},
            Shape{.rows = 5, .row_elements = 2, .capacity = 9, .first_row = 30}}) {
        CheckRule<float>(c, sparse_update, shape);
        CheckRule<double>(c, sparse_update, shape);
      }
    }
  }
}

// A gradient that is not finite must not hide behind a weight of 0.
TEST_CASE("a weight of zero makes a gradient zeros on a device") {
  const auto rule = OptimizerRule::Create(OptimizerOf("SGD", {}));
  REQUIRE(rule.ok());
  const DeviceMemory w = Uploaded(std::vector<float>{1, 2}), download = Pinned(w.bytes());
  const DeviceMemory gradient = Uploaded(std::vector<float>{NAN, INFINITY});
  const DeviceMemory weight = Uploaded(std::vector<float>{0});
  const DeviceMemory scale = OnDevice(sizeof(double));
  auto* const factor = reinterpret_cast<double*>(scale.data());
  Graph graph;
  graph.Add(OpsOfTest().GradientScale(weight.data(), DType::kFloat32, factor));
  graph.Add(OpsOfTest().Update(
      rule->get(), {.name = "w", .dtype = DType::kFloat32, .rows = 2, .value = w.data()},
      {.values = gradient.data()}, factor));
  graph.Download(download, w);
  graph.Run({});
  CHECK(ValuesOf<float>(download) == std::vector<float>{1, 2});
}

template <typename T>
void CheckOtherPushes() {
  const std::vector<T> values = {10, 20, 30, 40, 50, 60}, pushed = {1, 2, 3, 4};
  const std::vector<int64_t> keys = {11, 12};
  const DeviceMemory w = Uploaded(values), from = Uploaded(pushed), key_list = Uploaded(keys);
  const DeviceMemory rows = OnDevice(4 * sizeof(T));
  const DeviceVariable variable = {.name = "w",
                                   .dtype = DTypeOf<T>(),
                                   .first_row = 10,
                                   .rows = 3,
                                   .row_elements = 2,
                                   .value = w.data()};
  const DeviceKeys both = {reinterpret_cast<const int64_t*>(key_list.data()), 2};
  const DeviceMemory all = Pinned(w.bytes()), some = Pinned(rows.bytes());
  Graph graph;
  graph.Add(OpsOfTest().AssignAdd(variable, {.values = from.data(), .rows = both}));
  graph.Add(OpsOfTest().ReadRows(variable, both, rows.data()));
  graph.Add(OpsOfTest().Average(variable, {.values = rows.data(), .rows = both}, 0.75));
  graph.Download(all, w);
  graph.Download(some, rows);
  graph.Run({.keys = 2});
  CHECK(ValuesOf<T>(some) == std::vector<T>{31, 42, 53, 64});
  std::vector<T> expected = {10, 20};
  const auto averaged = [](T v) {
    return static_cast<T>(v * static_cast<T>(0.75) + v * static_cast<T>(1.0 - 0.75));
  };
  for (const T v : {T(31), T(42), T(53), T(64)}) expected.push_back(averaged(v));
  CHECK(ValuesOf<T>(all) == expected);
  graph.Run({.keys = 1});  // one row
  CHECK(ValuesOf<T>(all)[2] == averaged(expected[2] + pushed[0]));
  CHECK(ValuesOf<T>(all)[4] == expected[4]);
}

TEST_CASE("rows are read, added to and averaged on a device") {
  CheckOtherPushes<float>();
  CheckOtherPushes<double>();
}

TEST_CASE("integers are pushed to on a device") { CheckOtherPushes<int64_t>(); }

TEST_CASE("rules that do more than to update element by element are refused") {
  double scale = 1;
  const Arguments ema = {{"use_ema", ConfigOf(true)}, {"ema_overwrite_frequency", ConfigOf(10)}};
  for (const auto& spec : {OptimizerOf("Lamb", {}), OptimizerOf("SGD", ema)}) {
    const auto rule = OptimizerRule::Create(spec);
    REQUIRE(rule.ok());
    CHECK(OpsOfTest()
              .Update(rule->get(), {.name = "w", .dtype = DType::kFloat32}, {}, &scale)
              .status()
              .code() == absl::StatusCode::kUnimplemented);
  }
}

TEST_CASE("variables that no kernel updates are refused") {
  const auto rule = OptimizerRule::Create(OptimizerOf("Adam", {}));
  REQUIRE(rule.ok());
  double scale = 1;
  CHECK(OpsOfTest()
            .Update(rule->get(), {.name = "w", .dtype = DType::kInt32}, {}, &scale)
            .status()
            .code() == absl::StatusCode::kUnimplemented);
  CHECK(VariableOps::Of("tpu").status().code() == absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace cohort
