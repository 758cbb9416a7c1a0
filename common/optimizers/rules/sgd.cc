// Gradient descent with momentum: keras/src/optimizers/sgd.py.
#include "common/optimizers/rules/rule.h"

namespace cohort {
namespace {

class Sgd {
 public:
  explicit Sgd(const Config& config)
      : momentum_(config.Float("momentum")), nesterov_(config.Bool("nesterov")) {}

  std::vector<SlotInfo> Slots() const {
    return momentum_ != 0 ? std::vector<SlotInfo>{{"momentum", 0}} : std::vector<SlotInfo>{};
  }
  bool moves_all_rows() const { return momentum_ != 0; }  // by their momentum
  template <typename T>
  SgdUpdate<T> At(uint64_t, T learning_rate, T weight_decay) const {
    return {learning_rate, weight_decay, CastAsKeras<T>(momentum_), nesterov_};
  }

 private:
  double momentum_;
  bool nesterov_;
};

}  // namespace

OptimizerClass SgdOptimizer() {
  return {.schema = {.name = "SGD",
                     .doc = "Gradient descent, with momentum if there is any.",
                     .arguments = WithBaseArguments(
                         {LearningRateArgument(0.01),
                          Float("momentum", "Share of the previous change that is added.")
                              .Default(0)
                              .Between(0, 1),
                          Bool("nesterov", "Nesterov's momentum.").Default(false),
                          WeightDecayArgument()})},
          .make = MakeElementwise<Sgd>};
}

}  // namespace cohort
