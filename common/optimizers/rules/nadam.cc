// Adam with Nesterov's momentum: keras/src/optimizers/nadam.py.
#include <algorithm>
#include <array>
#include <cmath>

#include "common/optimizers/rules/rule.h"

namespace cohort {
namespace {

// Keras multiplies u_i = beta_1 (1 - 0.96^i / 2) up, step by step. The product of the second
// factors no longer changes after this many.
constexpr size_t kFactors = 1024;

// Element i is the product of the factors 1 to i.
const std::array<double, kFactors + 1>& Products() {
  static const std::array<double, kFactors + 1> products = [] {
    std::array<double, kFactors + 1> p{};
    p[0] = 1;
    for (size_t i = 1; i <= kFactors; ++i) {
      p[i] = p[i - 1] * (1 - 0.5 * std::pow(0.96, static_cast<double>(i)));
    }
    return p;
  }();
  return products;
}

class Nadam {
 public:
  explicit Nadam(const Config& config)
      : beta_1_(config.Float("beta_1")),
        beta_2_(config.Float("beta_2")),
        epsilon_(config.Float("epsilon")) {}

  std::vector<SlotInfo> Slots() const { return {{"momentum", 0}, {"velocity", 0}}; }
  bool moves_all_rows() const { return true; }
  template <typename T>
  NadamUpdate<T> At(uint64_t step, T learning_rate, T weight_decay) const {
    const T t = static_cast<T>(step + 1);
    const T beta_1 = CastAsKeras<T>(beta_1_), beta_2 = CastAsKeras<T>(beta_2_);
    const T decay = CastAsKeras<T>(0.96);
    const T rate = beta_1 * (T(1) - T(0.5) * std::pow(decay, t));
    const T next_rate = beta_1 * (T(1) - T(0.5) * std::pow(decay, t + 1));
    const size_t factors = std::min<uint64_t>(step + 1, kFactors);
    const T product =
        static_cast<T>(std::pow(beta_1_, static_cast<double>(step + 1)) * Products()[factors]);
    return {.learning_rate = learning_rate,
            .weight_decay = weight_decay,
            .one_minus_beta_1 = 1 - beta_1,
            .one_minus_beta_2 = 1 - beta_2,
            .epsilon = static_cast<T>(epsilon_),
            .next_rate = next_rate,
            .one_minus_rate = 1 - rate,
            .one_minus_next = 1 - product * next_rate,
            .one_minus_product = 1 - product,
            .one_minus_power = 1 - std::pow(beta_2, t)};
  }

 private:
  double beta_1_, beta_2_, epsilon_;
};

}  // namespace

OptimizerClass NadamOptimizer() {
  return {.schema = {.name = "Nadam",
                     .doc = "Adam with Nesterov's momentum.",
                     .arguments = WithBaseArguments(
                         {LearningRateArgument(0.001),
                          BetaArgument("beta_1", 0.9, "Decay of the mean of gradients."),
                          BetaArgument("beta_2", 0.999, "Decay of the mean of squares."),
                          EpsilonArgument(), WeightDecayArgument()})},
          .make = MakeElementwise<Nadam>};
}

}  // namespace cohort
