#include "common/optimizers/vector_loops.h"

#include <cstdint>
#include <cstring>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/optimizers/vector_loops.cc"
#include <hwy/foreach_target.h>
// foreach_target.h first.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {

// Tests whether all bits of the exponent are set: without the sign, no value is greater. The
// compiler makes vector code of the loop.
template <typename T>
HWY_INLINE bool AnyNotFinite(const T* values, size_t count) {
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  constexpr Bits kInfinity = sizeof(T) == 4 ? Bits{0x7F800000} : static_cast<Bits>(0x7FFull << 52);
  Bits greatest = 0;
  for (size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, values + i, sizeof(bits));
    bits &= hwy::LimitsMax<Bits>();
    greatest = bits > greatest ? bits : greatest;
  }
  return greatest >= kInfinity;
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
