#ifndef COHORT_COMMON_BASE_EXACT_SUM_H_
#define COHORT_COMMON_BASE_EXACT_SUM_H_

#include <absl/numeric/int128.h>
#include <absl/status/statusor.h>

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace cohort {

// The sum of doubles that are not negative, without rounding. So it does not depend on the order of
// the numbers, nor on how they were split into partial sums: a norm has the same bits for any
// number of shards and servers.
//
// The sum is a fixed-point number that covers the whole range of double. Every bin has room for
// 2^40 numbers. Not thread-safe.
class ExactSum {
 public:
  // Adds a number that is not negative, infinite, or not a number.
  void Add(double value) {
    constexpr uint64_t kOne = uint64_t{1} << 52;
    const auto bits = std::bit_cast<uint64_t>(value);
    const uint64_t exponent = bits >> 52;
    if (exponent >= 0x7ff) return AddSpecial(value);
    const uint64_t mantissa = (bits & (kOne - 1)) | (exponent > 0 ? kOne : 0);
    const uint64_t shift = exponent > 0 ? exponent - 1 : 0;
    bins_[shift / 32] += absl::uint128(mantissa) << (shift % 32);
  }
  void Add(const ExactSum& other);

  // The nearest double.
  double ToDouble() const;

  // Equal sums have equal texts.
  std::string Serialize() const;
  // Errors: InvalidArgument if Serialize has not written it.
  static absl::StatusOr<ExactSum> Parse(std::string_view text);

 private:
  static constexpr size_t kBins = 64;
  static constexpr size_t kDigits = kBins + 3;  // a bin has up to four digits
  // The sum in digits of 32 bits; digits[i] counts units of 2^(32 i - 1074).
  using Digits = std::array<uint32_t, kDigits>;

  void AddSpecial(double value);
  Digits ToDigits() const;

  std::array<absl::uint128, kBins> bins_{};  // in the units of Digits
  double special_ = 0;                       // the sum of what is infinite or not a number
};

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_EXACT_SUM_H_
