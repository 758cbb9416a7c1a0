#ifndef COHORT_COMMON_KERNELS_EXACT_MATH_H_
#define COHORT_COMMON_KERNELS_EXACT_MATH_H_

#include <bit>
#include <cstdint>

#include "common/device/host_device.h"

namespace cohort {

// Functions of operations that IEEE 754 defines exactly: the same bits on every machine and device,
// if the compiler fuses none of them (-ffp-contract=off, --fmad=false).

// log(x) of a normal positive number: 2 atanh((m - 1) / (m + 1)) + e log(2) with x = m 2^e.
COHORT_HD inline double ExactLog(double x) {
  constexpr double kLog2 = 0.69314718055994531;
  const auto bits = std::bit_cast<uint64_t>(x);
  int64_t exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1), t = s * s;
  double sum = 0;
  for (int k = 23; k >= 3; k -= 2) sum = (sum + 1.0 / k) * t;
  return 2 * s * (1 + sum) + static_cast<double>(exponent) * kLog2;
}

// cos and sin of 2 pi word / 2^32, from the series around the nearest quarter.
COHORT_HD inline void ExactCosSin(uint32_t word, double* cosine, double* sine) {
  constexpr double kTwoPi = 6.2831853071795865;
  const uint32_t quarter = (word + 0x20000000u) >> 30;
  const auto rest = static_cast<int32_t>(word - (quarter << 30));
  const double x = static_cast<double>(rest) * 0x1p-32 * kTwoPi, t = x * x;
  double c = 1, s = 1;
  for (int k = 18; k >= 2; k -= 2) c = 1 - c * t / (k * (k - 1));
  for (int k = 19; k >= 3; k -= 2) s = 1 - s * t / (k * (k - 1));
  s *= x;
  *cosine = quarter % 4 == 0 ? c : quarter % 4 == 1 ? -s : quarter % 4 == 2 ? -c : s;
  *sine = quarter % 4 == 0 ? s : quarter % 4 == 1 ? c : quarter % 4 == 2 ? -s : -c;
}

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_EXACT_MATH_H_
