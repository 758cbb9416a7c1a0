// Adam whose step has the norm of the variable: keras/src/optimizers/lamb.py.
#include <cmath>

#include "common/optimizers/rules/whole_rule.h"

namespace cohort {
namespace {

class Lamb {
 public:
  explicit Lamb(const Config& config)
      : beta_1_(config.Float("beta_1")),
        beta_2_(config.Float("beta_2")),
        epsilon_(config.Float("epsilon")) {}

  std::vector<SlotInfo> Slots() const { return {{"momentum", 0}, {"velocity", 0}}; }
  template <typename T>
  void Update(const WholeUpdate<T>& u) const {
    const T t = static_cast<T>(u.step + 1);
    const T correction_1 = 1 - std::pow(CastAsKeras<T>(beta_1_), t);
    const T correction_2 = 1 - std::pow(CastAsKeras<T>(beta_2_), t);
    const T take_1 = static_cast<T>(1 - beta_1_), take_2 = static_cast<T>(1 - beta_2_);
    const T epsilon = static_cast<T>(epsilon_);
    const double norm = std::sqrt(SquareSum<T>(u.variable));
    std::vector<T> change(u.variable.size());
    for (size_t i = 0; i < change.size(); ++i) {
      const T g = u.gradient[i];
      T& m = u.slots[0][i];
      T& v = u.slots[1][i];
      m = m + (g - m) * take_1;
      v = v + (g * g - v) * take_2;
      change[i] = m / correction_1 / (std::sqrt(v / correction_2) + epsilon);
    }
    const double change_norm = std::sqrt(SquareSum<T>(change));
    const T ratio =
        norm > 0 && change_norm > 0 ? static_cast<T>(norm) / static_cast<T>(change_norm) : T(1);
    for (size_t i = 0; i < change.size(); ++i) {
      u.variable[i] = u.variable[i] - ratio * u.learning_rate * change[i];
    }
  }

 private:
  double beta_1_, beta_2_, epsilon_;
};

std::unique_ptr<OptimizerRule> MakeLamb(const Config& config, const RuleSettings& settings) {
  return std::make_unique<WholeRule<Lamb>>(Lamb(config), config.Float("weight_decay"), settings);
}

}  // namespace

OptimizerClass LambOptimizer() {
  return {.schema = {.name = "Lamb",
                     .doc = "Adam whose step is as long as the variable, times the learning rate.",
                     .arguments = WithBaseArguments(
                         {LearningRateArgument(0.001),
                          BetaArgument("beta_1", 0.9, "Decay of the mean of gradients."),
                          BetaArgument("beta_2", 0.999, "Decay of the mean of squares."),
                          EpsilonArgument(), WeightDecayArgument()})},
          .make = MakeLamb,
          .is_whole = true};
}

}  // namespace cohort
