// Adam that averages its weights instead of lowering the rate:
// keras/src/optimizers/schedule_free_adamw.py. Its update reads the momentum of the step before. On
// TensorFlow, Keras 3.15 reads the new one there, because `momentum_old` names the variable itself;
// this rule computes as Keras does on its other backends.
#include <algorithm>
#include <cmath>

#include "common/optimizers/rules/rule.h"

namespace cohort {
namespace {

class ScheduleFreeAdamw {
 public:
  explicit ScheduleFreeAdamw(const Config& config)
      : beta_1_(config.Float("beta_1")),
        beta_2_(config.Float("beta_2")),
        epsilon_(config.Float("epsilon")),
        warmup_steps_(config.Int("warmup_steps")) {}

  std::vector<SlotInfo> Slots() const {
    return {{.name = "momentum", .is_copy = true}, {.name = "velocity"}};
  }
  bool moves_all_rows() const { return true; }
  template <typename T>
  ScheduleFreeAdamwUpdate<T> At(uint64_t step, T learning_rate, T weight_decay) const {
    const T t = static_cast<T>(step + 1);
    const T beta_1 = CastAsKeras<T>(beta_1_), beta_2 = CastAsKeras<T>(beta_2_);
    T rate = learning_rate;
    if (warmup_steps_ > 0) rate = rate * std::min(t / static_cast<T>(warmup_steps_), T(1));
    return {.learning_rate = learning_rate,
            .weight_decay = weight_decay,
            .rate = rate,
            .beta_1 = beta_1,
            .one_minus_beta_1 = 1 - beta_1,
            .one_minus_beta_2 = 1 - beta_2,
            .epsilon = CastAsKeras<T>(epsilon_),
            .correction = 1 - std::pow(beta_2, t),
            .weight = T(1) / t,
            .one_minus_weight = 1 - T(1) / t};
  }

 private:
  double beta_1_, beta_2_, epsilon_;
  int64_t warmup_steps_;
};

}  // namespace

OptimizerClass ScheduleFreeAdamWOptimizer() {
  return {
      .schema =
          {.name = "ScheduleFreeAdamW",
           .doc = "Adam that averages its weights, so that it needs no schedule. Numbers of Keras "
                  "on JAX; on TensorFlow it reads the new momentum as the old.",
           .arguments = WithBaseArguments(
               {LearningRateArgument(0.0025),
                Float("beta_1", "What the mean of weights counts in the weights.")
                    .Default(0.9)
                    .Between(1e-6, 1),
                BetaArgument("beta_2", 0.999, "Decay of the mean of squares."),
                Float("epsilon", "Keeps the divisor away from 0.")
                    .Default(1e-8)
                    .Between(0, kMostHyperparameter),
                Int("warmup_steps", "Steps in which the rate rises to learning_rate.")
                    .Default(0)
                    .AtLeast(0),
                WeightDecayArgument()})},
      .make = MakeElementwise<ScheduleFreeAdamw>};
}

}  // namespace cohort
