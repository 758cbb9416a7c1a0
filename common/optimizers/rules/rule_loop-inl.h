// The walk of an update over a range of elements, a vector at a time. Highway compiles this header
// once for each instruction set.
#if defined(COHORT_COMMON_OPTIMIZERS_RULES_RULE_LOOP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COHORT_COMMON_OPTIMIZERS_RULES_RULE_LOOP_INL_H_
#undef COHORT_COMMON_OPTIMIZERS_RULES_RULE_LOOP_INL_H_
#else
#define COHORT_COMMON_OPTIMIZERS_RULES_RULE_LOOP_INL_H_
#endif

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

// One vector's worth of elements at offset i.
template <typename T, class Kernel>
HWY_INLINE void StepVector(const Kernel& kernel, const WeightDecay<T>& decay,
                           const UpdateRange<T>& r, size_t i, Lanes<T> scale) {
  const Tag<T> d;
  Lanes<T> w = hn::LoadU(d, r.variable_in + i);
  Lanes<T> slots[Kernel::kSlots + 1];
  for (size_t s = 0; s < Kernel::kSlots; ++s) slots[s] = hn::LoadU(d, r.slots_in[s] + i);
  const Lanes<T> g =
      r.gradient != nullptr ? hn::Mul(hn::LoadU(d, r.gradient + i), scale) : hn::Zero(d);
  if (decay.on) w = hn::Sub(w, hn::Mul(hn::Mul(w, decay.weight_decay), decay.lr));
  kernel(w, slots, g);
  hn::StoreU(w, d, r.variable_out + i);
  for (size_t s = 0; s < Kernel::kSlots; ++s) hn::StoreU(slots[s], d, r.slots_out[s] + i);
}

// The elements left over at the end are copied to a whole vector.
template <typename T, class Kernel>
HWY_NOINLINE void StepRest(const Kernel& kernel, const WeightDecay<T>& decay,
                           const UpdateRange<T>& r, size_t begin, Lanes<T> scale) {
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
  StepVector(kernel, decay, rest, 0, scale);
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
  const size_t lanes = hn::Lanes(d), n = static_cast<size_t>(r.elements);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) StepVector<T>(kernel, decay, r, i, scale);
  if (i < n) StepRest<T>(kernel, decay, r, i, scale);
}

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#endif  // the toggle of Highway's header guards
