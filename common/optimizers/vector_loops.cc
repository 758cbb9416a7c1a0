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

// Adds four rows of b at a time to a row of c, in blocks of columns that stay in the first cache.
// The compiler makes vector code of the inner loop.
template <typename T>
HWY_INLINE void Multiply(const T* a, const T* b, T* HWY_RESTRICT c, size_t rows, size_t inner,
                         size_t columns) {
  constexpr size_t kBlock = 512;
  for (size_t begin = 0; begin < columns; begin += kBlock) {
    const size_t count = columns - begin < kBlock ? columns - begin : kBlock;
    for (size_t i = 0; i < rows; ++i) {
      T* HWY_RESTRICT to = c + i * columns + begin;
      std::memset(to, 0, count * sizeof(T));
      size_t k = 0;
      for (; k + 4 <= inner; k += 4) {
        const T* const f = a + i * inner + k;
        const T* const from = b + k * columns + begin;
        for (size_t j = 0; j < count; ++j) {
          to[j] = to[j] + ((f[0] * from[j] + f[1] * from[j + columns]) +
                           (f[2] * from[j + 2 * columns] + f[3] * from[j + 3 * columns]));
        }
      }
      for (; k < inner; ++k) {
        const T factor = a[i * inner + k];
        const T* const from = b + k * columns + begin;
        for (size_t j = 0; j < count; ++j) to[j] = to[j] + factor * from[j];
      }
    }
  }
}
void MultiplyFloat(const float* a, const float* b, float* c, size_t rows, size_t inner,
                   size_t columns) {
  Multiply(a, b, c, rows, inner, columns);
}
void MultiplyDouble(const double* a, const double* b, double* c, size_t rows, size_t inner,
                    size_t columns) {
  Multiply(a, b, c, rows, inner, columns);
}

const char* Target() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort {

HWY_EXPORT(AnyNonFiniteFloat);
HWY_EXPORT(AnyNonFiniteDouble);
HWY_EXPORT(MultiplyFloat);
HWY_EXPORT(MultiplyDouble);
HWY_EXPORT(Target);

bool AnyNonFinite(const float* values, size_t count) {
  return HWY_DYNAMIC_DISPATCH(AnyNonFiniteFloat)(values, count);
}
bool AnyNonFinite(const double* values, size_t count) {
  return HWY_DYNAMIC_DISPATCH(AnyNonFiniteDouble)(values, count);
}

void MultiplyMatrices(const float* a, const float* b, float* c, size_t rows, size_t inner,
                      size_t columns) {
  HWY_DYNAMIC_DISPATCH(MultiplyFloat)(a, b, c, rows, inner, columns);
}
void MultiplyMatrices(const double* a, const double* b, double* c, size_t rows, size_t inner,
                      size_t columns) {
  HWY_DYNAMIC_DISPATCH(MultiplyDouble)(a, b, c, rows, inner, columns);
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
