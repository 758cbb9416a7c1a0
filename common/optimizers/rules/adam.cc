// Adam: keras/src/optimizers/adam.py.
#include "common/optimizers/rules/adam.h"

#include <cmath>

#include "common/optimizers/rules/rule.h"

namespace cohort {
namespace {

class Adam {
 public:
  explicit Adam(const Config& config)
      : beta_1_(config.Float("beta_1")),
        beta_2_(config.Float("beta_2")),
        epsilon_(config.Float("epsilon")),
        amsgrad_(config.Bool("amsgrad")) {}

  std::vector<SlotInfo> Slots() const {
    std::vector<SlotInfo> slots = {{"momentum", 0}, {"velocity", 0}};
    if (amsgrad_) slots.push_back({"velocity_hat", 0});
    return slots;
  }
  bool moves_all_rows() const { return true; }
  template <typename T>
  AdamUpdate<T> At(uint64_t step, T learning_rate, T weight_decay) const {
    const T t = static_cast<T>(step + 1);
    const T power_1 = std::pow(CastAsKeras<T>(beta_1_), t);
    const T power_2 = std::pow(CastAsKeras<T>(beta_2_), t);
    const T alpha = learning_rate * std::sqrt(1 - power_2) / (1 - power_1);
    return {learning_rate,
            weight_decay,
            alpha,
            static_cast<T>(1 - beta_1_),
            static_cast<T>(1 - beta_2_),
            static_cast<T>(epsilon_),
            amsgrad_};
  }

 private:
  double beta_1_, beta_2_, epsilon_;
  bool amsgrad_;
};

}  // namespace

OptimizerClass AdamWith(std::string_view name, std::string_view doc, Argument weight_decay) {
  return {
      .schema =
          {.name = std::string(name),
           .doc = std::string(doc),
           .arguments = WithBaseArguments(
               {LearningRateArgument(0.001),
                Float("beta_1", "Decay of the mean of gradients.").Default(0.9).Below(0, 1),
                Float("beta_2", "Decay of the mean of squares.").Default(0.999).Below(0, 1),
                EpsilonArgument(),
                Bool("amsgrad", "Divides by the largest mean of squares so far.").Default(false),
                std::move(weight_decay)})},
      .make = MakeElementwise<Adam>};
}

OptimizerClass AdamOptimizer() {
  return AdamWith("Adam", "Step sizes from running means of gradients and their squares.",
                  WeightDecayArgument());
}

}  // namespace cohort
