#include "common/optimizers/optimizer_rules.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "common/optimizers/optimizer_rules_loops.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

v1::OptimizerSpec Spec(const std::string& name) {
  v1::OptimizerSpec spec;
  spec.set_class_name(name);
  spec.set_learning_rate(0.1);
  spec.set_rho(0.9);
  spec.set_beta_1(0.9);
  spec.set_beta_2(0.999);
  spec.set_epsilon(1e-7);
  return spec;
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

TEST_CASE("an element's result does not depend on how its variable is cut into ranges") {
  v1::OptimizerSpec spec = Spec("Adam");
  spec.set_amsgrad(true);
  spec.set_weight_decay(0.01);
  const auto adam = Make(spec);
  constexpr int64_t kElements = 203;
  const auto train = [&](int64_t part) {
    std::vector<float> w(kElements), m(kElements), v(kElements), h(kElements), g(kElements);
    for (size_t i = 0; i < w.size(); ++i) {
      w[i] = std::sin(static_cast<float>(i));
      g[i] = std::cos(static_cast<float>(3 * i));
    }
    for (uint64_t step = 0; step < 5; ++step) {
      for (int64_t begin = 0; begin < kElements; begin += part) {
        DenseUpdate update;
        update.target = InPlace(&w[static_cast<size_t>(begin)],
                                {&m[static_cast<size_t>(begin)], &v[static_cast<size_t>(begin)],
                                 &h[static_cast<size_t>(begin)]});
        update.elements = std::min(part, kElements - begin);
        update.gradient = g.data() + begin;
        update.weight = 3;
        update.step = step;
        adam->ApplyDense(update);
      }
    }
    return w;
  };
  const std::vector<float> whole = train(kElements);
  REQUIRE(whole == train(1));
  REQUIRE(whole == train(7));
  REQUIRE(whole == train(64));
}

TEST_CASE("which rows an update touches") {
  const auto touches = [](const std::string& name, const std::string& sparse, double momentum,
                          double decay) {
    v1::OptimizerSpec spec = Spec(name);
    spec.set_sparse_update(sparse);
    spec.set_momentum(momentum);
    spec.set_weight_decay(decay);
    return Make(spec)->touches_only_keys();
  };
  REQUIRE(touches("SGD", "keras", 0, 0));
  REQUIRE_FALSE(touches("SGD", "keras", 0.9, 0));
  REQUIRE_FALSE(touches("SGD", "", 0, 0.1));
  REQUIRE_FALSE(touches("Adam", "keras", 0, 0));
  REQUIRE_FALSE(touches("RMSprop", "", 0, 0));
  REQUIRE(touches("Adam", "lazy", 0, 0));
  REQUIRE(touches("SGD", "lazy", 0.9, 0.1));
}

TEST_CASE("under `keras` no rows at all still decays, under `lazy` nothing changes") {
  for (const bool lazy : {false, true}) {
    v1::OptimizerSpec spec = Spec("SGD");
    spec.set_momentum(0.5);
    spec.set_sparse_update(lazy ? "lazy" : "keras");
    const auto rule = Make(spec);
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

TEST_CASE("a wrong specification is refused by name") {
  const auto message = [](const v1::OptimizerSpec& spec) {
    return std::string(OptimizerRule::Create(spec).status().message());
  };
  REQUIRE(message(Spec("Nadam")) == "optimizer \"Nadam\" is not one of SGD, Adam, RMSprop");
  v1::OptimizerSpec spec = Spec("Adam");
  spec.set_beta_1(1);
  REQUIRE(message(spec).find("Adam: beta_1 must lie in") == 0);
  spec = Spec("SGD");
  spec.set_learning_rate(std::nan(""));
  REQUIRE(message(spec).find("SGD: learning_rate must lie in") == 0);
  spec = Spec("RMSprop");
  spec.set_sparse_update("eager");
  REQUIRE(message(spec) == "RMSprop: sparse_update must be \"keras\" or \"lazy\", not \"eager\"");
}

}  // namespace
}  // namespace cohort
