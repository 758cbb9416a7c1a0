// Adam: keras/src/optimizers/adam.py.
#include "common/optimizers/rules/adam.h"

#include <cmath>

#include "common/optimizers/rules/adam_step.h"
#include "common/optimizers/rules/rule.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/optimizers/rules/adam.cc"
#include <hwy/foreach_target.h>
// foreach_target.h first.
#include "common/optimizers/rules/rule_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {

template <typename T, bool kAmsgrad>
struct AdamKernel {
  static constexpr size_t kSlots = kAmsgrad ? 3 : 2;
  explicit AdamKernel(const AdamStep<T>& step)
      : alpha(hn::Set(Tag<T>(), step.alpha)),
        decay_1(hn::Set(Tag<T>(), step.one_minus_beta_1)),
        decay_2(hn::Set(Tag<T>(), step.one_minus_beta_2)),
        epsilon(hn::Set(Tag<T>(), step.epsilon)) {}
  HWY_INLINE void operator()(Lanes<T>& w, Lanes<T>* slots, Lanes<T> g) const {
    const Lanes<T> m = hn::Add(slots[0], hn::Mul(hn::Sub(g, slots[0]), decay_1));
    Lanes<T> v = hn::Add(slots[1], hn::Mul(hn::Sub(hn::Mul(g, g), slots[1]), decay_2));
    slots[0] = m;
    slots[1] = v;
    if (kAmsgrad) {
      v = hn::Max(slots[2], v);
      slots[2] = v;
    }
    w = hn::Sub(w, hn::Div(hn::Mul(m, alpha), hn::Add(hn::Sqrt(v), epsilon)));
  }
  Lanes<T> alpha, decay_1, decay_2, epsilon;
};

template <typename T>
HWY_INLINE void ApplyAdam(const AdamStep<T>& step, const UpdateRange<T>& r) {
  step.amsgrad ? UpdateWith<AdamKernel<T, true>>(step, r)
               : UpdateWith<AdamKernel<T, false>>(step, r);
}
void AdamFloat(const AdamStep<float>& step, const UpdateRange<float>& r) { ApplyAdam(step, r); }
void AdamDouble(const AdamStep<double>& step, const UpdateRange<double>& r) { ApplyAdam(step, r); }

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort {
namespace {

HWY_EXPORT(AdamFloat);
HWY_EXPORT(AdamDouble);

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
  AdamStep<T> At(uint64_t step, T learning_rate, T weight_decay) const {
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
  static void Apply(const AdamStep<float>& step, const UpdateRange<float>& range) {
    HWY_DYNAMIC_DISPATCH(AdamFloat)(step, range);
  }
  static void Apply(const AdamStep<double>& step, const UpdateRange<double>& range) {
    HWY_DYNAMIC_DISPATCH(AdamDouble)(step, range);
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
#endif  // HWY_ONCE
