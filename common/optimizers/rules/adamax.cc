// Adam by the largest gradient: keras/src/optimizers/adamax.py.
#include <cmath>

#include "common/optimizers/rules/rule.h"

namespace cohort {
namespace {

class Adamax {
 public:
  explicit Adamax(const Config& config)
      : beta_1_(config.Float("beta_1")),
        beta_2_(config.Float("beta_2")),
        epsilon_(config.Float("epsilon")) {}

  std::vector<SlotInfo> Slots() const { return {{"momentum", 0}, {"norm", 0}}; }
  bool moves_all_rows() const { return true; }
  template <typename T>
  AdamaxUpdate<T> At(uint64_t step, T learning_rate, T weight_decay) const {
    const T power = std::pow(CastAsKeras<T>(beta_1_), static_cast<T>(step + 1));
    return {learning_rate,
            weight_decay,
            static_cast<T>(1 - beta_1_),
            static_cast<T>(beta_2_),
            static_cast<T>(epsilon_),
            1 - power};
  }

 private:
  double beta_1_, beta_2_, epsilon_;
};

}  // namespace

OptimizerClass AdamaxOptimizer() {
  return {.schema = {.name = "Adamax",
                     .doc = "Adam that divides by the largest gradient, which decays.",
                     .arguments = WithBaseArguments(
                         {LearningRateArgument(0.001),
                          BetaArgument("beta_1", 0.9, "Decay of the mean of gradients."),
                          BetaArgument("beta_2", 0.999, "Decay of the largest gradient."),
                          EpsilonArgument(), WeightDecayArgument()})},
          .make = MakeElementwise<Adamax>};
}

}  // namespace cohort
