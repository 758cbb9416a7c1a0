#include "common/optimizers/optimizer_rules_loops.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/optimizers/optimizer_rules_loops.cc"
#include <hwy/foreach_target.h>
// foreach_target.h first.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Tag = hn::ScalableTag<T>;
template <typename T>
using Lanes = hn::Vec<Tag<T>>;

// One step of one vector: Rule(step)(variable, slots, gradient) updates variable and slots.
template <typename T, bool kMomentum>
struct Sgd {
  static constexpr size_t kSlots = kMomentum ? 1 : 0;
  explicit Sgd(const SgdStep<T>& step)
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

template <typename T, bool kAmsgrad>
struct Adam {
  static constexpr size_t kSlots = kAmsgrad ? 3 : 2;
  explicit Adam(const AdamStep<T>& step)
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

template <typename T, bool kMomentum, bool kCentered>
struct Rmsprop {
  static constexpr size_t kSlots = 1 + (kMomentum ? 1 : 0) + (kCentered ? 1 : 0);
  explicit Rmsprop(const RmspropStep<T>& step)
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

// One vector's worth of elements at offset i.
template <typename T, class Rule, class Decay>
HWY_INLINE void StepVector(const Rule& rule, const Decay& decay, const UpdateRange<T>& r, size_t i,
                           Lanes<T> scale) {
  const Tag<T> d;
  Lanes<T> w = hn::LoadU(d, r.variable_in + i);
  Lanes<T> slots[Rule::kSlots + 1];
  for (size_t s = 0; s < Rule::kSlots; ++s) slots[s] = hn::LoadU(d, r.slots_in[s] + i);
  const Lanes<T> g =
      r.gradient != nullptr ? hn::Mul(hn::LoadU(d, r.gradient + i), scale) : hn::Zero(d);
  if (decay.on) w = hn::Sub(w, hn::Mul(hn::Mul(w, decay.weight_decay), decay.lr));
  rule(w, slots, g);
  hn::StoreU(w, d, r.variable_out + i);
  for (size_t s = 0; s < Rule::kSlots; ++s) hn::StoreU(slots[s], d, r.slots_out[s] + i);
}

template <typename T>
struct WeightDecay {
  Lanes<T> weight_decay, lr;
  bool on;
};

// The elements left over at the end are copied to a whole vector.
template <typename T, class Rule>
HWY_NOINLINE void StepRest(const Rule& rule, const WeightDecay<T>& decay, const UpdateRange<T>& r,
                           size_t begin, Lanes<T> scale) {
  constexpr size_t kLanes = hn::MaxLanes(Tag<T>());
  const size_t n = static_cast<size_t>(r.elements) - begin;
  T w[kLanes] = {}, g[kLanes] = {}, slots[Rule::kSlots + 1][kLanes] = {};
  UpdateRange<T> rest;
  rest.variable_in = rest.variable_out = w;
  for (size_t i = 0; i < n; ++i) w[i] = r.variable_in[begin + i];
  for (size_t s = 0; s < Rule::kSlots; ++s) {
    rest.slots_in[s] = rest.slots_out[s] = slots[s];
    for (size_t i = 0; i < n; ++i) slots[s][i] = r.slots_in[s][begin + i];
  }
  if (r.gradient != nullptr) {
    rest.gradient = g;
    std::memcpy(g, r.gradient + begin, n * sizeof(T));
  }
  StepVector(rule, decay, rest, 0, scale);
  for (size_t i = 0; i < n; ++i) r.variable_out[begin + i] = w[i];
  for (size_t s = 0; s < Rule::kSlots; ++s) {
    for (size_t i = 0; i < n; ++i) r.slots_out[s][begin + i] = slots[s][i];
  }
}

template <class Rule, class Step, typename T>
void Loop(const Step& step, const UpdateRange<T>& r) {
  const Tag<T> d;
  const Rule rule(step);
  const WeightDecay<T> decay = {hn::Set(d, step.weight_decay), hn::Set(d, step.learning_rate),
                                step.weight_decay != 0};
  const Lanes<T> scale = hn::Set(d, r.gradient_scale);
  const size_t lanes = hn::Lanes(d), n = static_cast<size_t>(r.elements);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) StepVector(rule, decay, r, i, scale);
  if (i < n) StepRest(rule, decay, r, i, scale);
}

template <typename T>
HWY_INLINE void ApplySgd(const SgdStep<T>& step, const UpdateRange<T>& r) {
  step.momentum != 0 ? Loop<Sgd<T, true>>(step, r) : Loop<Sgd<T, false>>(step, r);
}
template <typename T>
HWY_INLINE void ApplyAdam(const AdamStep<T>& step, const UpdateRange<T>& r) {
  step.amsgrad ? Loop<Adam<T, true>>(step, r) : Loop<Adam<T, false>>(step, r);
}
template <typename T>
HWY_INLINE void ApplyRmsprop(const RmspropStep<T>& step, const UpdateRange<T>& r) {
  if (step.momentum > 0) {
    step.centered ? Loop<Rmsprop<T, true, true>>(step, r) : Loop<Rmsprop<T, true, false>>(step, r);
  } else {
    step.centered ? Loop<Rmsprop<T, false, true>>(step, r)
                  : Loop<Rmsprop<T, false, false>>(step, r);
  }
}

void SgdFloat(const SgdStep<float>& s, const UpdateRange<float>& r) { ApplySgd(s, r); }
void SgdDouble(const SgdStep<double>& s, const UpdateRange<double>& r) { ApplySgd(s, r); }
void AdamFloat(const AdamStep<float>& s, const UpdateRange<float>& r) { ApplyAdam(s, r); }
void AdamDouble(const AdamStep<double>& s, const UpdateRange<double>& r) { ApplyAdam(s, r); }
void RmspropFloat(const RmspropStep<float>& s, const UpdateRange<float>& r) { ApplyRmsprop(s, r); }
void RmspropDouble(const RmspropStep<double>& s, const UpdateRange<double>& r) {
  ApplyRmsprop(s, r);
}

// Tests whether all bits of the exponent are set: without the sign, no value is greater.
template <typename T>
HWY_INLINE bool AnyNotFinite(const T* values, size_t count) {
  const Tag<T> d;
  const hn::RebindToSigned<Tag<T>> di;
  using Bits = hn::TFromD<decltype(di)>;
  constexpr Bits kMagnitude = hwy::LimitsMax<Bits>();
  constexpr Bits kInfinity = sizeof(T) == 4 ? Bits{0x7F800000} : static_cast<Bits>(0x7FFull << 52);
  const auto magnitude = hn::Set(di, kMagnitude);
  const size_t lanes = hn::Lanes(d);
  auto greatest = hn::Zero(di);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::BitCast(di, hn::LoadU(d, values + i));
    greatest = hn::Max(greatest, hn::And(bits, magnitude));
  }
  bool found = !hn::AllFalse(di, hn::Gt(greatest, hn::Set(di, kInfinity - 1)));
  for (; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, values + i, sizeof(bits));
    found |= (bits & kMagnitude) >= kInfinity;
  }
  return found;
}
bool AnyNonFiniteFloat(const float* values, size_t n) { return AnyNotFinite(values, n); }
bool AnyNonFiniteDouble(const double* values, size_t n) { return AnyNotFinite(values, n); }

const char* Target() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort {

HWY_EXPORT(SgdFloat);
HWY_EXPORT(SgdDouble);
HWY_EXPORT(AdamFloat);
HWY_EXPORT(AdamDouble);
HWY_EXPORT(RmspropFloat);
HWY_EXPORT(RmspropDouble);
HWY_EXPORT(AnyNonFiniteFloat);
HWY_EXPORT(AnyNonFiniteDouble);
HWY_EXPORT(Target);

void ApplyRange(const SgdStep<float>& step, const UpdateRange<float>& range) {
  HWY_DYNAMIC_DISPATCH(SgdFloat)(step, range);
}
void ApplyRange(const SgdStep<double>& step, const UpdateRange<double>& range) {
  HWY_DYNAMIC_DISPATCH(SgdDouble)(step, range);
}
void ApplyRange(const AdamStep<float>& step, const UpdateRange<float>& range) {
  HWY_DYNAMIC_DISPATCH(AdamFloat)(step, range);
}
void ApplyRange(const AdamStep<double>& step, const UpdateRange<double>& range) {
  HWY_DYNAMIC_DISPATCH(AdamDouble)(step, range);
}
void ApplyRange(const RmspropStep<float>& step, const UpdateRange<float>& range) {
  HWY_DYNAMIC_DISPATCH(RmspropFloat)(step, range);
}
void ApplyRange(const RmspropStep<double>& step, const UpdateRange<double>& range) {
  HWY_DYNAMIC_DISPATCH(RmspropDouble)(step, range);
}

bool AnyNonFinite(const float* values, size_t count) {
  return HWY_DYNAMIC_DISPATCH(AnyNonFiniteFloat)(values, count);
}
bool AnyNonFinite(const double* values, size_t count) {
  return HWY_DYNAMIC_DISPATCH(AnyNonFiniteDouble)(values, count);
}

#define COHORT_STRING_OF(number) #number
#define COHORT_VERSION(major, minor, patch) \
  COHORT_STRING_OF(major) "." COHORT_STRING_OF(minor) "." COHORT_STRING_OF(patch)
const char* OptimizerLibraries() {
  return "highway " COHORT_VERSION(HWY_MAJOR, HWY_MINOR, HWY_PATCH);
}
const char* OptimizerInstructionSet() { return HWY_DYNAMIC_DISPATCH(Target)(); }

}  // namespace cohort
#endif  // HWY_ONCE
