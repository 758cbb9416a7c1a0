// Follow the regularized leader: keras/src/optimizers/ftrl.py.
#include <cmath>

#include "common/optimizers/rules/ftrl_step.h"
#include "common/optimizers/rules/rule.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/optimizers/rules/ftrl.cc"
#include <hwy/foreach_target.h>
// foreach_target.h first.
#include "common/optimizers/rules/rule_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {

// Slots: accumulator, linear.
template <typename T, bool kSqrt>
struct FtrlKernel {
  static constexpr size_t kSlots = 2;
  explicit FtrlKernel(const FtrlStep<T>& step)
      : exponent(step.power),
        lr(hn::Set(Tag<T>(), step.learning_rate)),
        l1(hn::Set(Tag<T>(), step.l1)),
        two_l2(hn::Set(Tag<T>(), step.two_l2)),
        two_shrinkages(hn::Set(Tag<T>(), step.two_shrinkages)) {}

  HWY_INLINE Lanes<T> Power(Lanes<T> x) const {
    if (kSqrt) return hn::Sqrt(x);
    const Tag<T> d;
    HWY_ALIGN T lanes[hn::MaxLanes(Tag<T>())];
    hn::Store(x, d, lanes);
    for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = std::pow(lanes[i], exponent);
    return hn::Load(d, lanes);
  }
  HWY_INLINE void operator()(Lanes<T>& w, Lanes<T>* slots, Lanes<T> g) const {
    const Lanes<T> shrunk = hn::Add(g, hn::Mul(two_shrinkages, w));
    const Lanes<T> accumulator = hn::Add(slots[0], hn::Mul(g, g));
    const Lanes<T> power = Power(accumulator);
    const Lanes<T> sigma = hn::Div(hn::Sub(power, Power(slots[0])), lr);
    const Lanes<T> linear = hn::Add(slots[1], hn::Sub(shrunk, hn::Mul(sigma, w)));
    const Lanes<T> quadratic = hn::Add(hn::Div(power, lr), two_l2);
    const Lanes<T> clipped = hn::Min(hn::Max(linear, hn::Neg(l1)), l1);
    w = hn::Div(hn::Sub(clipped, linear), quadratic);
    slots[0] = accumulator;
    slots[1] = linear;
  }
  T exponent;
  Lanes<T> lr, l1, two_l2, two_shrinkages;
};

template <typename T>
HWY_INLINE void ApplyFtrl(const FtrlStep<T>& step, const UpdateRange<T>& r) {
  step.power == T(0.5) ? UpdateWith<FtrlKernel<T, true>>(step, r)
                       : UpdateWith<FtrlKernel<T, false>>(step, r);
}
void FtrlFloat(const FtrlStep<float>& step, const UpdateRange<float>& r) { ApplyFtrl(step, r); }
void FtrlDouble(const FtrlStep<double>& step, const UpdateRange<double>& r) { ApplyFtrl(step, r); }

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort {
namespace {

HWY_EXPORT(FtrlFloat);
HWY_EXPORT(FtrlDouble);

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
  FtrlStep<T> At(uint64_t, T learning_rate, T weight_decay) const {
    const T l2 = static_cast<T>(l2_) + static_cast<T>(beta_) / (T(2) * learning_rate);
    return {learning_rate,       weight_decay, static_cast<T>(power_),
            static_cast<T>(l1_), T(2) * l2,    static_cast<T>(2 * shrinkage_)};
  }
  static void Apply(const FtrlStep<float>& step, const UpdateRange<float>& range) {
    HWY_DYNAMIC_DISPATCH(FtrlFloat)(step, range);
  }
  static void Apply(const FtrlStep<double>& step, const UpdateRange<double>& range) {
    HWY_DYNAMIC_DISPATCH(FtrlDouble)(step, range);
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
#endif  // HWY_ONCE
