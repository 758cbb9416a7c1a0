// Follow the regularized leader: keras/src/optimizers/ftrl.py.
#include <cmath>

#include "common/optimizers/rules/rule.h"

namespace cohort {
namespace {

class Ftrl {
 public:
  explicit Ftrl(const Config& config)
      : power_(-config.Float("learning_rate_power")),
        initial_(config.Float("initial_accumulator_value")),
        l1_(config.Float("l1_regularization_strength")),
        l2_(config.Float("l2_regularization_strength")),
        shrinkage_(config.Float("l2_shrinkage_regularization_strength")),
        beta_(config.Float("beta")) {}

  std::vector<SlotInfo> Slots() const {
    return {{"accumulator", CastAsKeras<double>(initial_)}, {"linear", 0}};
  }
  // Keras computes every row from its slots, also without a gradient.
  bool moves_all_rows() const { return true; }
  template <typename T>
  FtrlUpdate<T> At(uint64_t, T learning_rate, T weight_decay) const {
    const T l2 = static_cast<T>(l2_) + static_cast<T>(beta_) / (T(2) * learning_rate);
    return {learning_rate,       weight_decay, static_cast<T>(power_),
            static_cast<T>(l1_), T(2) * l2,    static_cast<T>(2 * shrinkage_)};
  }

 private:
  double power_, initial_, l1_, l2_, shrinkage_, beta_;
};

Argument Strength(std::string_view name, std::string_view doc) {
  return Float(name, doc).Default(0).Between(0, kMostHyperparameter);
}

}  // namespace

OptimizerClass FtrlOptimizer() {
  return {
      .schema = {.name = "Ftrl",
                 .doc = "Follow the regularized leader, for large sparse linear models.",
                 .arguments = WithBaseArguments(
                     {LearningRateArgument(0.001),
                      Float("learning_rate_power", "How the learning rate falls; 0: it does not.")
                          .Default(-0.5)
                          .Between(-kMostHyperparameter, 0),
                      Float("initial_accumulator_value", "First value of the sum of squares.")
                          .Default(0.1)
                          .Between(0, kMostHyperparameter),
                      Strength("l1_regularization_strength", "Penalty on absolute values."),
                      Strength("l2_regularization_strength", "Penalty on squares."),
                      Strength("l2_shrinkage_regularization_strength",
                               "Penalty on squares that is part of the gradient."),
                      Strength("beta", "The paper's beta, which is added to the root."),
                      WeightDecayArgument()})},
      .make = MakeElementwise<Ftrl>};
}

}  // namespace cohort
