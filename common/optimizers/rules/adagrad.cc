// Division by the sum of all squared gradients: keras/src/optimizers/adagrad.py.
#include "common/optimizers/rules/rule.h"

namespace cohort {
namespace {

class Adagrad {
 public:
  explicit Adagrad(const Config& config)
      : initial_(config.Float("initial_accumulator_value")), epsilon_(config.Float("epsilon")) {}

  std::vector<SlotInfo> Slots() const { return {{"accumulator", CastAsKeras<double>(initial_)}}; }
  bool moves_all_rows() const { return false; }
  template <typename T>
  AdagradUpdate<T> At(uint64_t, T learning_rate, T weight_decay) const {
    return {learning_rate, weight_decay, static_cast<T>(epsilon_)};
  }

 private:
  double initial_, epsilon_;
};

}  // namespace

OptimizerClass AdagradOptimizer() {
  return {.schema = {.name = "Adagrad",
                     .doc = "Gradients divided by the root of the sum of their squares.",
                     .arguments = WithBaseArguments(
                         {LearningRateArgument(0.001),
                          Float("initial_accumulator_value", "First value of the sum of squares.")
                              .Default(0.1)
                              .Between(0, kMostHyperparameter),
                          EpsilonArgument(), WeightDecayArgument()})},
          .make = MakeElementwise<Adagrad>};
}

}  // namespace cohort
