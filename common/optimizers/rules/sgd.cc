// Gradient descent with momentum: keras/src/optimizers/sgd.py.
#include "common/optimizers/rules/rule.h"
#include "common/optimizers/rules/sgd_step.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/optimizers/rules/sgd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h first.
#include "common/optimizers/rules/rule_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {

template <typename T, bool kMomentum>
struct SgdKernel {
  static constexpr size_t kSlots = kMomentum ? 1 : 0;
  explicit SgdKernel(const SgdStep<T>& step)
      : lr(hn::Set(Tag<T>(), step.learning_rate)),
        momentum(hn::Set(Tag<T>(), step.momentum)),
        nesterov(step.nesterov) {}
  HWY_INLINE void operator()(Lanes<T>& w, Lanes<T>* slots, Lanes<T> g) const {
    const Lanes<T> change = hn::Mul(g, lr);
    if (!kMomentum) {
      w = hn::Sub(w, change);
      return;
    }
    const Lanes<T> m = hn::Sub(hn::Mul(slots[0], momentum), change);
    slots[0] = m;
    w = hn::Add(w, nesterov ? hn::Sub(hn::Mul(m, momentum), change) : m);
  }
  Lanes<T> lr, momentum;
  bool nesterov;
};

template <typename T>
HWY_INLINE void ApplySgd(const SgdStep<T>& step, const UpdateRange<T>& r) {
  step.momentum != 0 ? UpdateWith<SgdKernel<T, true>>(step, r)
                     : UpdateWith<SgdKernel<T, false>>(step, r);
}
void SgdFloat(const SgdStep<float>& step, const UpdateRange<float>& r) { ApplySgd(step, r); }
void SgdDouble(const SgdStep<double>& step, const UpdateRange<double>& r) { ApplySgd(step, r); }

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort {
namespace {

HWY_EXPORT(SgdFloat);
HWY_EXPORT(SgdDouble);

class Sgd {
 public:
  explicit Sgd(const Config& config)
      : momentum_(config.Float("momentum")), nesterov_(config.Bool("nesterov")) {}

  std::vector<SlotInfo> Slots() const {
    return momentum_ != 0 ? std::vector<SlotInfo>{{"momentum", 0}} : std::vector<SlotInfo>{};
  }
  bool moves_all_rows() const { return momentum_ != 0; }  // by their momentum
  template <typename T>
  SgdStep<T> At(uint64_t, T learning_rate, T weight_decay) const {
    return {learning_rate, weight_decay, CastAsKeras<T>(momentum_), nesterov_};
  }
  static void Apply(const SgdStep<float>& step, const UpdateRange<float>& range) {
    HWY_DYNAMIC_DISPATCH(SgdFloat)(step, range);
  }
  static void Apply(const SgdStep<double>& step, const UpdateRange<double>& range) {
    HWY_DYNAMIC_DISPATCH(SgdDouble)(step, range);
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
#endif  // HWY_ONCE
