// Division by a running mean of squared gradients: keras/src/optimizers/rmsprop.py.
#include "common/optimizers/rules/rmsprop_step.h"
#include "common/optimizers/rules/rule.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/optimizers/rules/rmsprop.cc"
#include <hwy/foreach_target.h>
// foreach_target.h first.
#include "common/optimizers/rules/rule_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {

// Slots: velocity, momentum if there is any, average_gradient if centered.
template <typename T, bool kMomentum, bool kCentered>
struct RmspropKernel {
  static constexpr size_t kSlots = 1 + (kMomentum ? 1 : 0) + (kCentered ? 1 : 0);
  explicit RmspropKernel(const RmspropStep<T>& step)
      : lr(hn::Set(Tag<T>(), step.learning_rate)),
        rho(hn::Set(Tag<T>(), step.rho)),
        one_minus_rho(hn::Set(Tag<T>(), step.one_minus_rho)),
        momentum(hn::Set(Tag<T>(), step.momentum)),
        epsilon(hn::Set(Tag<T>(), step.epsilon)) {}
  HWY_INLINE void operator()(Lanes<T>& w, Lanes<T>* slots, Lanes<T> g) const {
    const Lanes<T> v = hn::Add(hn::Mul(rho, slots[0]), hn::Mul(one_minus_rho, hn::Mul(g, g)));
    slots[0] = v;
    Lanes<T> denominator = v;
    if (kCentered) {
      Lanes<T>& average = slots[kSlots - 1];
      average = hn::Add(hn::Mul(rho, average), hn::Mul(one_minus_rho, g));
      denominator = hn::Sub(v, hn::Mul(average, average));
    }
    denominator = hn::Add(denominator, epsilon);
    Lanes<T> change = hn::Div(hn::Mul(lr, g), hn::Sqrt(denominator));
    if (kMomentum) {
      change = hn::Add(hn::Mul(momentum, slots[1]), change);
      slots[1] = change;
    }
    w = hn::Sub(w, change);
  }
  Lanes<T> lr, rho, one_minus_rho, momentum, epsilon;
};

template <typename T>
HWY_INLINE void ApplyRmsprop(const RmspropStep<T>& step, const UpdateRange<T>& r) {
  if (step.momentum > 0) {
    step.centered ? UpdateWith<RmspropKernel<T, true, true>>(step, r)
                  : UpdateWith<RmspropKernel<T, true, false>>(step, r);
  } else {
    step.centered ? UpdateWith<RmspropKernel<T, false, true>>(step, r)
                  : UpdateWith<RmspropKernel<T, false, false>>(step, r);
  }
}
void RmspropFloat(const RmspropStep<float>& step, const UpdateRange<float>& r) {
  ApplyRmsprop(step, r);
}
void RmspropDouble(const RmspropStep<double>& step, const UpdateRange<double>& r) {
  ApplyRmsprop(step, r);
}

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort {
namespace {

HWY_EXPORT(RmspropFloat);
HWY_EXPORT(RmspropDouble);

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
  RmspropStep<T> At(uint64_t, T learning_rate, T weight_decay) const {
    return {learning_rate,
            weight_decay,
            static_cast<T>(rho_),
            static_cast<T>(1 - rho_),
            static_cast<T>(momentum_),
            static_cast<T>(epsilon_),
            centered_};
  }
  static void Apply(const RmspropStep<float>& step, const UpdateRange<float>& range) {
    HWY_DYNAMIC_DISPATCH(RmspropFloat)(step, range);
  }
  static void Apply(const RmspropStep<double>& step, const UpdateRange<double>& range) {
    HWY_DYNAMIC_DISPATCH(RmspropDouble)(step, range);
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
#endif  // HWY_ONCE
