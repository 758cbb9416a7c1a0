// Steps as large as earlier changes: keras/src/optimizers/adadelta.py.
#include "common/optimizers/rules/rule.h"

namespace cohort {
namespace {

class Adadelta {
 public:
  explicit Adadelta(const Config& config)
      : rho_(config.Float("rho")), epsilon_(config.Float("epsilon")) {}

  std::vector<SlotInfo> Slots() const {
    return {{"accumulated_grad", 0}, {"accumulated_delta_var", 0}};
  }
  bool moves_all_rows() const { return true; }
  template <typename T>
  AdadeltaUpdate<T> At(uint64_t, T learning_rate, T weight_decay) const {
    return {learning_rate, weight_decay, static_cast<T>(rho_), static_cast<T>(1 - rho_),
            static_cast<T>(epsilon_)};
  }

 private:
  double rho_, epsilon_;
};

}  // namespace

OptimizerClass AdadeltaOptimizer() {
  return {.schema = {.name = "Adadelta",
                     .doc = "Gradients divided by the root of the running mean of their squares, "
                            "times that of the changes.",
                     .arguments = WithBaseArguments(
                         {LearningRateArgument(0.001),
                          Float("rho", "Decay of both means.").Default(0.95).Between(0, 1),
                          EpsilonArgument(), WeightDecayArgument()})},
          .make = MakeElementwise<Adadelta>};
}

}  // namespace cohort
