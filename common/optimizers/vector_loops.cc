#include "common/optimizers/vector_loops.h"

#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/optimizers/vector_loops.cc"
#include <hwy/foreach_target.h>
// foreach_target.h first.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Tests whether all bits of the exponent are set: without the sign, no value is greater.
template <typename T>
HWY_INLINE bool AnyNotFinite(const T* values, size_t count) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<hn::ScalableTag<T>> di;
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

HWY_EXPORT(AnyNonFiniteFloat);
HWY_EXPORT(AnyNonFiniteDouble);
HWY_EXPORT(Target);

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
