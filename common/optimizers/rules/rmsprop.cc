// Division by a running mean of squared gradients: keras/src/optimizers/rmsprop.py.
#include "common/optimizers/rules/rule.h"

namespace cohort {
namespace {

class Rmsprop {
 public:
  explicit Rmsprop(const Config& config)
      : rho_(config.Float("rho")),
        momentum_(config.Float("momentum")),
        epsilon_(config.Float("epsilon")),
        centered_(config.Bool("centered")) {}

  std::vector<SlotInfo> Slots() const {
    std::vector<SlotInfo> slots = {{"velocity", 0}};
    if (momentum_ > 0) slots.push_back({"momentum", 0});
    if (centered_) slots.push_back({"average_gradient", 0});
    return slots;
  }
  bool moves_all_rows() const { return true; }
  template <typename T>
  RmspropUpdate<T> At(uint64_t, T learning_rate, T weight_decay) const {
    return {learning_rate,
            weight_decay,
            static_cast<T>(rho_),
            static_cast<T>(1 - rho_),
            static_cast<T>(momentum_),
            static_cast<T>(epsilon_),
            centered_};
  }

 private:
  double rho_, momentum_, epsilon_;
  bool centered_;
};

}  // namespace

OptimizerClass RmspropOptimizer() {
  return {
      .schema = {.name = "RMSprop",
                 .doc = "Gradients divided by the root of the running mean of their squares.",
                 .arguments = WithBaseArguments(
                     {LearningRateArgument(0.001),
                      Float("rho", "Decay of the mean of squares.").Default(0.9).Between(0, 1),
                      Float("momentum", "Share of the previous change that is added.")
                          .Default(0)
                          .Between(0, 1),
                      EpsilonArgument(),
                      Bool("centered", "Divides by the variance instead of the mean of squares.")
                          .Default(false),
                      WeightDecayArgument()})},
      .make = MakeElementwise<Rmsprop>};
}

}  // namespace cohort
