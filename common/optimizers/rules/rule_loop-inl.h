// The walk of an update over a range of elements, a vector at a time. Highway compiles this header
// once for each instruction set.
#if defined(COHORT_COMMON_OPTIMIZERS_RULES_RULE_LOOP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COHORT_COMMON_OPTIMIZERS_RULES_RULE_LOOP_INL_H_
#undef COHORT_COMMON_OPTIMIZERS_RULES_RULE_LOOP_INL_H_
#else
#define COHORT_COMMON_OPTIMIZERS_RULES_RULE_LOOP_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstring>

#include "common/optimizers/rules/rule.h"

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Tag = hn::ScalableTag<T>;
template <typename T>
using Lanes = hn::Vec<Tag<T>>;

template <typename T>
struct WeightDecay {
  Lanes<T> weight_decay, lr;
  bool on;
};

// Finds a NaN or an infinity: without the sign, the bits of every other number are less than those
// of an infinity.
template <typename T>
class Magnitudes {
 public:
  HWY_INLINE Magnitudes() : greatest_(hn::Zero(BitsTag())) {}
  HWY_INLINE void Add(Lanes<T> values) {
    const auto bits =
        hn::And(hn::BitCast(BitsTag(), values), hn::Set(BitsTag(), hwy::LimitsMax<Bits>()));
    greatest_ = hn::Max(greatest_, bits);
  }
  HWY_INLINE bool AnyNonFinite() const {
    constexpr Bits kInfinity =
        sizeof(T) == 4 ? Bits{0x7F800000} : static_cast<Bits>(int64_t{0x7FF} << 52);
    return !hn::AllFalse(BitsTag(), hn::Gt(greatest_, hn::Set(BitsTag(), kInfinity - 1)));
  }

 private:
  using BitsTag = hn::RebindToSigned<Tag<T>>;
  using Bits = hn::TFromD<BitsTag>;

  hn::Vec<BitsTag> greatest_;
};

// One vector's worth of elements at offset i. kPastCaches: the variable's new values, which are
// aligned, are written past the caches.
template <bool kPastCaches, typename T, class Kernel>
HWY_INLINE void StepVector(const Kernel& kernel, const WeightDecay<T>& decay,
                           const UpdateRange<T>& r, size_t i, Lanes<T> scale,
                           Magnitudes<T>* magnitudes) {
  const Tag<T> d;
  Lanes<T> w = hn::LoadU(d, r.variable_in + i);
  Lanes<T> slots[Kernel::kSlots + 1];
  for (size_t s = 0; s < Kernel::kSlots; ++s) slots[s] = hn::LoadU(d, r.slots_in[s] + i);
  Lanes<T> g = hn::Zero(d);
  if (r.gradient != nullptr) {
    const Lanes<T> sum = hn::LoadU(d, r.gradient + i);
    magnitudes->Add(sum);
    g = hn::Mul(sum, scale);
  }
  if (decay.on) w = hn::Sub(w, hn::Mul(hn::Mul(w, decay.weight_decay), decay.lr));
  kernel(w, slots, g);
  if constexpr (kPastCaches) {
    hn::Stream(w, d, r.variable_out + i);
  } else {
    hn::StoreU(w, d, r.variable_out + i);
  }
  for (size_t s = 0; s < Kernel::kSlots; ++s) hn::StoreU(slots[s], d, r.slots_out[s] + i);
}

// The elements left over at the end are copied to a whole vector.
template <typename T, class Kernel>
HWY_NOINLINE void StepRest(const Kernel& kernel, const WeightDecay<T>& decay,
                           const UpdateRange<T>& r, size_t begin, Lanes<T> scale,
                           Magnitudes<T>* magnitudes) {
  constexpr size_t kLanes = hn::MaxLanes(Tag<T>());
  const size_t n = static_cast<size_t>(r.elements) - begin;
  T w[kLanes] = {}, g[kLanes] = {}, slots[Kernel::kSlots + 1][kLanes] = {};
  UpdateRange<T> rest;
  rest.variable_in = rest.variable_out = w;
  for (size_t i = 0; i < n; ++i) w[i] = r.variable_in[begin + i];
  for (size_t s = 0; s < Kernel::kSlots; ++s) {
    rest.slots_in[s] = rest.slots_out[s] = slots[s];
    for (size_t i = 0; i < n; ++i) slots[s][i] = r.slots_in[s][begin + i];
  }
  if (r.gradient != nullptr) {
    rest.gradient = g;
    std::memcpy(g, r.gradient + begin, n * sizeof(T));
  }
  StepVector</*kPastCaches=*/false>(kernel, decay, rest, 0, scale, magnitudes);
  for (size_t i = 0; i < n; ++i) r.variable_out[begin + i] = w[i];
  for (size_t s = 0; s < Kernel::kSlots; ++s) {
    for (size_t i = 0; i < n; ++i) r.slots_out[s][begin + i] = slots[s][i];
  }
}

// Updates a range. `Kernel` is made from the constants of the step; its kSlots is the number of
// slots, and kernel(variable, slots, gradient) updates one vector of the variable and its slots.
// Every step starts with variable -= variable * weight_decay * learning_rate.
template <class Kernel, class Step, typename T>
void UpdateWith(const Step& step, const UpdateRange<T>& r) {
  const Tag<T> d;
  const Kernel kernel(step);
  const WeightDecay<T> decay = {hn::Set(d, step.weight_decay), hn::Set(d, step.learning_rate),
                                step.weight_decay != 0};
  const Lanes<T> scale = hn::Set(d, r.gradient_scale);
  Magnitudes<T> magnitudes;
  const size_t lanes = hn::Lanes(d), n = static_cast<size_t>(r.elements);
  const bool aligned = reinterpret_cast<uintptr_t>(r.variable_out) % (lanes * sizeof(T)) == 0;
  size_t i = 0;
  if (r.past_caches && aligned) {
    for (; i + lanes <= n; i += lanes) {
      StepVector</*kPastCaches=*/true>(kernel, decay, r, i, scale, &magnitudes);
    }
    hwy::FlushStream();
  }
  for (; i + lanes <= n; i += lanes) {
    StepVector</*kPastCaches=*/false>(kernel, decay, r, i, scale, &magnitudes);
  }
  if (i < n) StepRest<T>(kernel, decay, r, i, scale, &magnitudes);
  if (r.non_finite != nullptr && magnitudes.AnyNonFinite()) *r.non_finite = true;
}

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#endif  // the toggle of Highway's header guards
