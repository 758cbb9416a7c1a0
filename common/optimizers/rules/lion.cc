// Steps by the sign of a mean: keras/src/optimizers/lion.py.
#include "common/base/status.h"
#include "common/optimizers/rules/rule.h"

namespace cohort {
namespace {

class Lion {
 public:
  explicit Lion(const Config& config)
      : beta_1_(config.Float("beta_1")), beta_2_(config.Float("beta_2")) {}

  std::vector<SlotInfo> Slots() const { return {{"momentum", 0}}; }
  bool moves_all_rows() const { return true; }
  template <typename T>
  LionUpdate<T> At(uint64_t, T learning_rate, T weight_decay) const {
    const T beta_1 = CastAsKeras<T>(beta_1_), beta_2 = CastAsKeras<T>(beta_2_);
    return {learning_rate, weight_decay, beta_1, 1 - beta_1, beta_2, 1 - beta_2};
  }

 private:
  double beta_1_, beta_2_;
};

absl::Status CheckLion(const Config& config) {
  if (config.Float("beta_1") > 0) return absl::OkStatus();
  return InvalidArgument(
      "Lion: beta_1 must be more than 0: without it, only signs of gradients count");
}

}  // namespace

OptimizerClass LionOptimizer() {
  return {.schema = {.name = "Lion",
                     .doc = "Steps of the same size, by the sign of a mean of gradients.",
                     .arguments = WithBaseArguments(
                         {LearningRateArgument(0.001),
                          Float("beta_1", "What the mean counts beside the gradient, in a step.")
                              .Default(0.9)
                              .Between(0, 1),
                          Float("beta_2", "Decay of the mean.").Default(0.99).Between(0, 1),
                          WeightDecayArgument()})},
          .make = MakeElementwise<Lion>,
          .check = CheckLion};
}

}  // namespace cohort
