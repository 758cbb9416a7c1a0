#include "common/optimizers/optimizer_rules.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "common/optimizers/optimizers.h"
#include "common/optimizers/vector_loops.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

using Arguments = std::vector<std::pair<std::string, v1::ConfigValue>>;

// With a learning rate of 0.1.
v1::OptimizerSpec Spec(std::string_view name, Arguments arguments = {},
                       std::string_view sparse_update = "keras") {
  arguments.emplace_back("learning_rate", ConfigOf(0.1));
  return OptimizerOf(name, arguments, sparse_update);
}

std::unique_ptr<OptimizerRule> Make(const v1::OptimizerSpec& spec) {
  auto rule = OptimizerRule::Create(spec);
  REQUIRE(rule.ok());
  return *std::move(rule);
}

UpdateTarget InPlace(float* w, std::initializer_list<float*> slots) {
  UpdateTarget target;
  target.dtype = DType::kFloat32;
  target.variable_in = target.variable_out = w;
  size_t i = 0;
  for (float* s : slots) {
    target.slots_in[i] = target.slots_out[i] = s;
    ++i;
  }
  return target;
}

TEST_CASE("the gradient is divided by the weight") {
  const auto sgd = Make(Spec("SGD"));
  float w[] = {1, 2, 3};
  const float g[] = {32, 64, -32};
  DenseUpdate update;
  update.target = InPlace(w, {});
  update.elements = 3;
  update.gradient = g;
  update.weight = 32;
  sgd->ApplyDense(update);
  REQUIRE(w[0] == 1 - 0.1f);
  REQUIRE(w[1] == 2 - 2 * 0.1f);
  REQUIRE(w[2] == 3 + 0.1f);
  update.weight = 0;  // no example, no gradient
  sgd->ApplyDense(update);
  REQUIRE(w[0] == 1 - 0.1f);
}

// Updates some rows of ten, in place or to other memory. Returns the variable and the slots.
template <typename T>
std::vector<T> RowsUpdated(const OptimizerRule& rule, DType dtype, int64_t columns, bool in_place) {
  const int64_t rows = 10;
  const std::vector<int64_t> keys = {101, 102, 105, 109};
  const size_t elements = static_cast<size_t>(rows * columns);
  const size_t tensors = 1 + rule.slots().size();
  std::vector<T> from(tensors * elements);
  for (size_t i = 0; i < from.size(); ++i) from[i] = T(1) / static_cast<T>(i + 3);
  std::vector<T> to(from.size());
  for (size_t s = 0; s + 1 < tensors; ++s) {  // what is behind a slot with a number for each row
    if (!rule.slots()[s].by_row) continue;
    for (size_t i = static_cast<size_t>(rows); i < elements; ++i) {
      to[(s + 1) * elements + i] = from[(s + 1) * elements + i];
    }
  }
  std::vector<T> gradient(keys.size() * static_cast<size_t>(columns));
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<T>(i % 7) - T(2.7);
  T* const out = in_place ? from.data() : to.data();
  UpdateTarget target;
  target.dtype = dtype;
  target.variable_in = from.data();
  target.variable_out = out;
  for (size_t s = 0; s + 1 < tensors; ++s) {
    target.slots_in[s] = from.data() + (s + 1) * elements;
    target.slots_out[s] = out + (s + 1) * elements;
  }
  rule.ApplyRows({.target = target,
                  .first_row = 100,
                  .rows = rows,
                  .row_elements = columns,
                  .keys = keys,
                  .gradient = gradient.data(),
                  .weight = 3,
                  .step = 5});
  return in_place ? from : to;
}

TEST_CASE("rows have the same bits in place and in a copy") {
  for (const ClassSchema* schema : OptimizerSchemas().Schemas()) {
    if ((*Optimizers().Find(schema->name))->is_whole) continue;
    for (const char* const update : {"lazy", "keras"}) {
      const auto rule = Make(Spec(schema->name, {}, update));
      for (const int64_t columns : {1, 3, 16, 37}) {
        CAPTURE(schema->name, update, columns);
        CHECK(RowsUpdated<float>(*rule, DType::kFloat32, columns, true) ==
              RowsUpdated<float>(*rule, DType::kFloat32, columns, false));
        CHECK(RowsUpdated<double>(*rule, DType::kFloat64, columns, true) ==
              RowsUpdated<double>(*rule, DType::kFloat64, columns, false));
      }
    }
  }
}

template <typename T>
void CheckNonFinite() {
  using Limits = std::numeric_limits<T>;
  alignas(64) uint8_t memory[70 * sizeof(T) + 8];
  for (size_t shift = 0; shift < sizeof(T); ++shift) {
    for (size_t count = 0; count < 70; ++count) {
      uint8_t* const bytes = memory + shift;
      std::vector<T> values(count, Limits::max());
      if (count > 1) values[1] = -Limits::max();
      const auto found = [&] {
        std::copy_n(reinterpret_cast<const uint8_t*>(values.data()), count * sizeof(T), bytes);
        return AnyNonFinite(reinterpret_cast<const T*>(bytes), count);
      };
      REQUIRE_FALSE(found());
      for (const T bad : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                          -Limits::signaling_NaN()}) {
        for (size_t i = 0; i < count; ++i) {
          const T good = std::exchange(values[i], bad);
          REQUIRE(found());
          values[i] = good;
        }
      }
    }
  }
}

TEST_CASE("what is not finite is found wherever it lies") {
  CheckNonFinite<float>();
  CheckNonFinite<double>();
}

TEST_CASE("an update finds what is not finite in its gradient") {
  const auto sgd = Make(Spec("SGD"));
  for (const size_t count : {size_t{1}, size_t{16}, size_t{67}}) {
    std::vector<float> w(count), g(count, std::numeric_limits<float>::max());
    bool found = false;
    DenseUpdate update;
    update.target = InPlace(w.data(), {});
    update.elements = static_cast<int64_t>(count);
    update.gradient = g.data();
    update.weight = 8;
    update.non_finite = &found;
    sgd->ApplyDense(update);
    REQUIRE_FALSE(found);
    for (size_t i = 0; i < count; ++i) {
      g[i] = i % 2 == 0 ? -std::numeric_limits<float>::infinity()
                        : std::numeric_limits<float>::quiet_NaN();
      sgd->ApplyDense(update);
      REQUIRE(std::exchange(found, false));
      g[i] = 1;
    }
  }
}

TEST_CASE("values that are written past the caches are the same") {
  constexpr size_t kElements = 203;
  for (const char* name : {"SGD", "Adam"}) {
    const auto rule = Make(Spec(name));
    std::vector<float> w(kElements), g(kElements), slots[2], expected;
    for (size_t i = 0; i < kElements; ++i) {
      w[i] = std::sin(static_cast<float>(i));
      g[i] = std::cos(static_cast<float>(3 * i));
    }
    for (auto& slot : slots) slot.resize(kElements, 0.5f);
    for (const size_t shift :
         {size_t{0}, size_t{0}, size_t{1}, size_t{16}}) {  // the first one goes through the caches
      alignas(64) float out[kElements + 16] = {};
      std::vector<float> slots_out[2] = {slots[0], slots[1]};
      DenseUpdate update;
      update.target.dtype = DType::kFloat32;
      update.target.variable_in = w.data();
      update.target.variable_out = out + shift;
      for (size_t s = 0; s < 2; ++s) {
        update.target.slots_in[s] = update.target.slots_out[s] = slots_out[s].data();
      }
      update.target.past_caches = !expected.empty();
      update.elements = kElements;
      update.gradient = g.data();
      rule->ApplyDense(update);
      const std::vector<float> got(out + shift, out + shift + kElements);
      if (expected.empty()) expected = got;
      REQUIRE(got == expected);
    }
  }
}

// Trains 203 elements for five steps, in parts of `part` elements.
std::vector<float> TrainInParts(const OptimizerRule& rule, int64_t part) {
  constexpr int64_t kElements = 203;
  std::vector<float> w(kElements), g(kElements), slots[kMaxSlots];
  for (size_t i = 0; i < w.size(); ++i) {
    w[i] = std::sin(static_cast<float>(i));
    g[i] = std::cos(static_cast<float>(3 * i));
  }
  for (size_t s = 0; s < rule.slots().size(); ++s) {
    slots[s].assign(kElements, static_cast<float>(rule.slots()[s].initial_value));
  }
  for (uint64_t step = 0; step < 5; ++step) {
    for (int64_t begin = 0; begin < kElements; begin += part) {
      DenseUpdate update;
      update.target = InPlace(w.data() + begin, {});
      for (size_t s = 0; s < rule.slots().size(); ++s) {
        update.target.slots_in[s] = update.target.slots_out[s] = slots[s].data() + begin;
      }
      update.elements = std::min(part, kElements - begin);
      update.gradient = g.data() + begin;
      update.weight = 3;
      update.step = step;
      rule.ApplyDense(update);
    }
  }
  return w;
}

TEST_CASE("an element's result does not depend on how its variable is cut into ranges") {
  std::vector<v1::OptimizerSpec> specs = {
      Spec("Adam", {{"amsgrad", ConfigOf(true)}, {"weight_decay", ConfigOf(0.01)}}),
      Spec("Ftrl", {{"learning_rate_power", ConfigOf(-0.7)}})};
  for (const ClassSchema* schema : OptimizerSchemas().Schemas()) {
    specs.push_back(Spec(schema->name));
  }
  for (const v1::OptimizerSpec& spec : specs) {
    INFO(spec.rule().class_name());
    const auto rule = Make(spec);
    if (rule->scope() != UpdateScope::kElement) continue;
    const std::vector<float> whole = TrainInParts(*rule, 203);
    REQUIRE(whole == TrainInParts(*rule, 1));
    REQUIRE(whole == TrainInParts(*rule, 7));
    REQUIRE(whole == TrainInParts(*rule, 64));
  }
}

TEST_CASE("which rows an update touches") {
  const auto touches = [](std::string_view name, std::string_view sparse,
                          Arguments arguments = {}) {
    return Make(Spec(name, std::move(arguments), sparse))->touches_only_keys();
  };
  const Arguments decay = {{"weight_decay", ConfigOf(0.1)}};
  const Arguments momentum = {{"momentum", ConfigOf(0.9)}};
  REQUIRE(touches("SGD", "keras"));
  REQUIRE(touches("Adagrad", "keras"));
  REQUIRE_FALSE(touches("SGD", "keras", momentum));
  REQUIRE_FALSE(touches("SGD", "", decay));
  REQUIRE_FALSE(touches("Adagrad", "", decay));
  REQUIRE_FALSE(touches("Adam", "keras"));
  REQUIRE_FALSE(touches("AdamW", "keras"));
  REQUIRE_FALSE(touches("Ftrl", "keras"));
  REQUIRE_FALSE(touches("RMSprop", ""));
  REQUIRE(touches("Adam", "lazy"));
  REQUIRE(touches("SGD", "lazy", decay));
}

TEST_CASE("under `keras` no rows at all still decays, under `lazy` nothing changes") {
  for (const bool lazy : {false, true}) {
    const auto rule = Make(Spec("SGD", {{"momentum", ConfigOf(0.5)}}, lazy ? "lazy" : "keras"));
    float w[4] = {1, 1, 1, 1}, m[4] = {2, 2, 2, 2}, w_out[4] = {}, m_out[4] = {};
    RowsUpdate update;
    update.target = InPlace(w, {m});
    update.target.variable_out = w_out;
    update.target.slots_out[0] = m_out;
    update.first_row = 100;
    update.rows = 2;
    update.row_elements = 2;
    rule->ApplyRows(update);
    for (int i = 0; i < 4; ++i) {
      REQUIRE(m_out[i] == (lazy ? 2 : 1));
      REQUIRE(w_out[i] == (lazy ? 1 : 2));
      REQUIRE(w[i] == 1);
    }
  }
}

TEST_CASE("a row that is not named is copied when an update is out of place") {
  const auto rule = Make(Spec("SGD"));
  const float w[6] = {1, 2, 3, 4, 5, 6};
  float out[6] = {};
  const float g[2] = {10, 10};
  const int64_t keys[] = {8};
  RowsUpdate update;
  update.target.dtype = DType::kFloat32;
  update.target.variable_in = w;
  update.target.variable_out = out;
  update.first_row = 7;
  update.rows = 3;
  update.row_elements = 2;
  update.keys = keys;
  update.gradient = g;
  rule->ApplyRows(update);
  REQUIRE(std::vector<float>(out, out + 6) == std::vector<float>{1, 2, 2, 3, 5, 6});
}

}  // namespace
}  // namespace cohort
