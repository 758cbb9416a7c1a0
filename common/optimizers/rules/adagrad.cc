// Division by the sum of all squared gradients: keras/src/optimizers/adagrad.py.
#include "common/optimizers/rules/adagrad_step.h"
#include "common/optimizers/rules/rule.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/optimizers/rules/adagrad.cc"
#include <hwy/foreach_target.h>
// foreach_target.h first.
#include "common/optimizers/rules/rule_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {

template <typename T>
struct AdagradKernel {
  static constexpr size_t kSlots = 1;
  explicit AdagradKernel(const AdagradStep<T>& step)
      : lr(hn::Set(Tag<T>(), step.learning_rate)), epsilon(hn::Set(Tag<T>(), step.epsilon)) {}
  HWY_INLINE void operator()(Lanes<T>& w, Lanes<T>* slots, Lanes<T> g) const {
    slots[0] = hn::Add(slots[0], hn::Mul(g, g));
    w = hn::Sub(w, hn::Div(hn::Mul(lr, g), hn::Sqrt(hn::Add(slots[0], epsilon))));
  }
  Lanes<T> lr, epsilon;
};

void AdagradFloat(const AdagradStep<float>& step, const UpdateRange<float>& r) {
  UpdateWith<AdagradKernel<float>>(step, r);
}
void AdagradDouble(const AdagradStep<double>& step, const UpdateRange<double>& r) {
  UpdateWith<AdagradKernel<double>>(step, r);
}

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort {
namespace {

HWY_EXPORT(AdagradFloat);
HWY_EXPORT(AdagradDouble);

class Adagrad {
 public:
  explicit Adagrad(const Config& config)
      : initial_(config.Float("initial_accumulator_value")), epsilon_(config.Float("epsilon")) {}

  std::vector<SlotInfo> Slots() const { return {{"accumulator", CastAsKeras<double>(initial_)}}; }
  bool moves_all_rows() const { return false; }
  template <typename T>
  AdagradStep<T> At(uint64_t, T learning_rate, T weight_decay) const {
    return {learning_rate, weight_decay, static_cast<T>(epsilon_)};
  }
  static void Apply(const AdagradStep<float>& step, const UpdateRange<float>& range) {
    HWY_DYNAMIC_DISPATCH(AdagradFloat)(step, range);
  }
  static void Apply(const AdagradStep<double>& step, const UpdateRange<double>& range) {
    HWY_DYNAMIC_DISPATCH(AdagradDouble)(step, range);
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
#endif  // HWY_ONCE
