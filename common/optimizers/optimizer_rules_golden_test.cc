// Compares every optimizer and variant with the results of Keras 3, or PyTorch, for the same
// gradients
// (tests/golden/make_optimizer_golden.py has the formulas; `lazy` against its NumPy reference).
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "common/optimizers/optimizers.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

using nlohmann::json;

json ReadGolden(const std::string& name) {
  const char* source = std::getenv("COHORT_SOURCE_DIR");
  std::ifstream file((source != nullptr ? std::string(source) : ".") + "/tests/golden/" + name);
  json golden = json::parse(file, nullptr, false);
  REQUIRE(golden.is_object());
  return golden;
}

// Keras' results, those of PyTorch for the optimizers that have its formulas, and those of NumPy
// for RowwiseAdagrad.
const json& Golden() {
  static const json golden = [] {
    json all = ReadGolden("optimizers.json");
    const json torch = ReadGolden("optimizers_torch.json");
    for (const json& c : torch["cases"]) all["cases"].push_back(c);
    const json rowwise = ReadGolden("optimizers_rowwise.json");
    for (const json& c : rowwise["cases"]) all["cases"].push_back(c);
    return all;
  }();
  return golden;
}

v1::ConfigValue ValueOf(const json& value);

v1::ConfigValue ObjectOf(const json& c) {
  v1::ClassConfig object;
  object.set_class_name(c["class_name"].get<std::string>());
  for (const auto& [name, value] : c["config"].items()) {
    (*object.mutable_config())[name] = ValueOf(value);
  }
  return ConfigOf(std::move(object));
}

// The variable of a case, whose optimizer is number 0 of a layout.
v1::VariableSpec VariableOf(const json& golden, const json& c) {
  v1::VariableSpec variable;
  variable.set_name("v");
  variable.set_trainable(true);
  if (c["mode"] == "dense") {
    variable.add_dims(golden["elements"]);
  } else {
    variable.add_dims(golden["rows"]);
    variable.add_dims(golden["columns"]);
  }
  if (c.contains("constraint")) *variable.mutable_constraint() = ObjectOf(c["constraint"]).object();
  return variable;
}

v1::ConfigValue ValueOf(const json& value) {
  if (value.is_object()) return ObjectOf(value);
  if (value.is_null()) return {};
  if (value.is_boolean()) return ConfigOf(value.get<bool>());
  if (value.is_string()) return ConfigOf(value.get<std::string>());
  if (value.is_number_integer()) return ConfigOf(value.get<int64_t>());
  if (!value.is_array()) return ConfigOf(value.get<double>());
  v1::ConfigValue list;
  for (const json& item : value) *list.mutable_list()->add_values() = ValueOf(item);
  return list;
}

v1::OptimizerSpec SpecOf(const json& c) {
  std::vector<std::pair<std::string, v1::ConfigValue>> arguments;
  for (const auto& [name, value] : c["config"].items()) {
    arguments.emplace_back(name, ValueOf(value));
  }
  return OptimizerOf(c["class_name"].get<std::string>(), arguments,
                     c["mode"] == "lazy" ? "lazy" : "keras");
}

template <typename T>
T InitialValue(int64_t i) {
  return static_cast<T>(static_cast<double>((6007 * i + 17) % 1999) / 1000.0 - 1.0);
}

// The gradient of the summed loss: that of the mean times a weight with an exact reciprocal.
constexpr double kWeight = 4;
template <typename T>
T SummedGradient(int64_t step, int64_t i) {
  const double g = static_cast<double>((7919 * i + 104729 * step + 31) % 2003) / 1000.0 - 1.0;
  return static_cast<T>(g) * static_cast<T>(kWeight);
}

std::vector<int64_t> RowsOf(int64_t step) {
  if (step == 7) return {};
  std::vector<int64_t> rows = {step % 8, (step + 3) % 8, (3 * step + 5) % 8};
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

// A variable with its slots, updated in two ranges, by turns in place and into fresh memory.
template <typename T>
class Trained {
 public:
  Trained(const OptimizerRule& rule, int64_t elements, int64_t columns)
      : rule_(rule), columns_(columns) {
    tensors_.resize(1 + rule.slots().size(), std::vector<T>(static_cast<size_t>(elements)));
    for (size_t s = 0; s < rule.slots().size(); ++s) {
      if (rule.slots()[s].by_row) tensors_[s + 1].resize(static_cast<size_t>(elements / columns));
    }
    for (int64_t i = 0; i < elements; ++i) tensors_[0][static_cast<size_t>(i)] = InitialValue<T>(i);
    for (size_t s = 0; s < rule.slots().size(); ++s) {
      if (rule.slots()[s].is_copy) tensors_[s + 1] = tensors_[0];
      if (rule.slots()[s].is_copy) continue;
      std::ranges::fill(tensors_[s + 1], static_cast<T>(rule.slots()[s].initial_value));
    }
  }

  void StepDense(int64_t step) {
    const int64_t n = static_cast<int64_t>(tensors_[0].size());
    std::vector<T> gradient;
    for (int64_t i = 0; i < n; ++i) gradient.push_back(SummedGradient<T>(step, i));
    Begin(step);
    for (const auto& [begin, end] : Parts(n, n % 2 == 0 ? 6 : 5)) {
      DenseUpdate update;
      update.target = Target(begin);
      update.elements = end - begin;
      update.gradient = gradient.data() + begin;
      update.weight = kWeight;
      update.step = static_cast<uint64_t>(step);
      rule_.ApplyDense(update);
    }
    End();
  }

  void StepRows(int64_t step, int64_t rows, int64_t columns) {
    const std::vector<int64_t> keys = RowsOf(step);
    std::vector<T> gradient;
    for (int64_t i = 0; i < static_cast<int64_t>(keys.size()) * columns; ++i) {
      gradient.push_back(SummedGradient<T>(step, i));
    }
    Begin(step);
    for (const auto& [begin, end] : Parts(rows, 3)) {
      const auto first = std::ranges::lower_bound(keys, begin);
      const auto last = std::ranges::lower_bound(keys, end);
      RowsUpdate update;
      update.target = Target(begin * columns);
      update.first_row = begin;
      update.rows = end - begin;
      update.row_elements = columns;
      update.keys = {first, last};
      update.gradient = gradient.data() + (first - keys.begin()) * columns;
      update.weight = kWeight;
      update.step = static_cast<uint64_t>(step);
      rule_.ApplyRows(update);
    }
    End();
  }

  const std::vector<T>& variable() const { return tensors_[0]; }
  const std::vector<T>& slot(size_t i) const { return tensors_[i + 1]; }

 private:
  // Two parts, unless the rule works on the whole variable.
  std::vector<std::pair<int64_t, int64_t>> Parts(int64_t all, int64_t first) const {
    if (rule_.scope() == UpdateScope::kVariable) return {{0, all}};
    return {{0, first}, {first, all}};
  }
  void Begin(int64_t step) {
    in_place_ = step % 2 == 0;
    const T nan = std::numeric_limits<T>::quiet_NaN();
    fresh_ = tensors_;
    for (std::vector<T>& tensor : fresh_) std::ranges::fill(tensor, nan);
  }
  void End() {
    if (!in_place_) tensors_ = fresh_;
  }
  UpdateTarget Target(int64_t begin) {
    std::vector<std::vector<T>>& to = in_place_ ? tensors_ : fresh_;
    UpdateTarget target;
    target.dtype = std::is_same_v<T, float> ? DType::kFloat32 : DType::kFloat64;
    target.variable_in = tensors_[0].data() + begin;
    target.variable_out = to[0].data() + begin;
    for (size_t s = 1; s < tensors_.size(); ++s) {
      const int64_t at = rule_.slots()[s - 1].by_row ? begin / columns_ : begin;
      target.slots_in[s - 1] = tensors_[s].data() + at;
      target.slots_out[s - 1] = to[s].data() + at;
    }
    return target;
  }

  const OptimizerRule& rule_;
  const int64_t columns_;
  std::vector<std::vector<T>> tensors_;  // the variable, then its slots
  std::vector<std::vector<T>> fresh_;
  bool in_place_ = true;
};

// Within 1e-12 (float64) or 1e-7 + 1e-6 (float32) times the tensor's largest element: a single
// rule, fed Keras' gradients, is a thousand and ten times closer than a whole model has to be. The
// products of Muon, and the sums of Lamb and Adafactor, have another order: they are as close as
// models.
template <typename T>
void RequireClose(const std::vector<T>& got, const json& expected, double slack) {
  REQUIRE(got.size() == expected.size());
  double largest = 0, worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i].get<double>()));
    worst = std::max(worst, std::abs(static_cast<double>(got[i]) - expected[i].get<double>()));
    REQUIRE(std::isfinite(got[i]));
  }
  const double limit = std::is_same_v<T, double> ? 1e-12 * largest : 1e-7 + 1e-6 * largest;
  REQUIRE(worst <= slack * limit);
}

template <typename T>
void CheckCase(const json& golden, const json& c) {
  const v1::VariableSpec variable = VariableOf(golden, c);
  auto rule = OptimizerRule::Create(SpecOf(c), &variable);
  INFO(rule.status());
  REQUIRE(rule.ok());
  const double slack = (*rule)->scope() == UpdateScope::kElement ? 1 : 10;
  const int64_t rows = golden["rows"], columns = golden["columns"], steps = golden["steps"];
  const bool sparse = c["mode"] == "keras" || c["mode"] == "lazy";
  Trained<T> trained(**rule,
                     c["mode"] == "dense" ? golden["elements"].get<int64_t>() : rows * columns,
                     c["mode"] == "dense" ? 1 : columns);
  for (int64_t step = 0; step < steps; ++step) {
    sparse ? trained.StepRows(step, rows, columns) : trained.StepDense(step);
    const std::string done = std::to_string(step + 1);
    INFO("after step " << done);
    if (c["variable"].contains(done)) RequireClose(trained.variable(), c["variable"][done], slack);
  }
  // Keras does not name the means of Adafactor.
  if (c["class_name"] == "Adafactor" && c["slots"].empty()) return;
  REQUIRE((*rule)->slots().size() == c["slots"].size());
  for (size_t s = 0; s < (*rule)->slots().size(); ++s) {
    const std::string& slot = (*rule)->slots()[s].name;
    INFO("slot " << slot);
    REQUIRE(c["slots"].contains(slot));
    RequireClose(trained.slot(s), c["slots"][slot], slack);
  }
}

TEST_CASE("updates are those of Keras, dense and sparse") {
  const json& golden = Golden();
  std::map<std::string, int> cases;  // by optimizer
  for (const json& c : golden["cases"]) {
    ++cases[c["class_name"].get<std::string>()];
    INFO(c["case"].get<std::string>()
         << " " << c["dtype"].get<std::string>() << " " << c["mode"].get<std::string>());
    c["dtype"] == "float32" ? CheckCase<float>(golden, c) : CheckCase<double>(golden, c);
  }
  // Each optimizer has cases of two dtypes in three modes.
  for (const ClassSchema* schema : OptimizerSchemas().Schemas()) {
    INFO(schema->name);
    CHECK(cases[schema->name] >= 6);
  }
}

TEST_CASE("learning rates of schedules are those of Keras") {
  std::map<std::string, int> cases;  // by schedule
  for (const json& c : Golden()["schedules"]) {
    INFO(c.dump());
    ++cases[c["class_name"].get<std::string>()];
    const auto schedule = MakeSchedule(ObjectOf(c));
    REQUIRE(schedule.ok());
    for (size_t step = 0; step < c["rates"].size(); ++step) {
      INFO("step " << step);
      const double expected = c["rates"][step];
      REQUIRE(std::abs((*schedule)(static_cast<double>(step)) - expected) <= 1e-11);
    }
  }
  for (const ClassSchema* schema : ScheduleSchemas().Schemas()) {
    INFO(schema->name);
    CHECK((cases[schema->name] > 0 || schema->name == "WarmUp"));  // Keras has no WarmUp
  }
}

}  // namespace
}  // namespace cohort
