#include "common/base/exact_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/status.h"

namespace cohort {
namespace {

constexpr int kDigitBits = 32;
constexpr int kLowestExponent = -1074;  // the exponent of the first bit

// The first byte of the text.
enum Form : char { kFinite = 0, kInfinite = 1, kNotANumber = 2 };

}  // namespace

void ExactSum::AddSpecial(double value) {
  // A negative number is a mistake of the caller.
  special_ += std::isinf(value) && value > 0 ? value : std::numeric_limits<double>::quiet_NaN();
}

void ExactSum::Add(const ExactSum& other) {
  const Digits digits = other.ToDigits();
  for (size_t i = 0; i < kBins; ++i) bins_[i] += digits[i];
  for (size_t i = kBins; i < kDigits; ++i) {
    bins_[kBins - 1] += absl::uint128(digits[i]) << (kDigitBits * (i - kBins + 1));
  }
  special_ += other.special_;
}

ExactSum::Digits ExactSum::ToDigits() const {
  Digits digits{};
  absl::uint128 carry = 0;
  for (size_t i = 0; i < kDigits; ++i) {
    if (i < kBins) carry += bins_[i];
    digits[i] = static_cast<uint32_t>(carry);
    carry >>= kDigitBits;
  }
  return digits;
}

// The 64 highest bits, of which the last one stands for all lower ones, are rounded once.
double ExactSum::ToDouble() const {
  if (special_ != 0) return special_;
  const Digits digits = ToDigits();
  size_t top = kDigits;
  while (top > 0 && digits[top - 1] == 0) --top;
  if (top <= 2) {
    const uint64_t word = digits[0] | uint64_t{digits[1]} << kDigitBits;
    return std::ldexp(static_cast<double>(word), kLowestExponent);
  }
  absl::uint128 bits = digits[top - 1];
  bits = bits << kDigitBits | digits[top - 2];
  bits = bits << kDigitBits | digits[top - 3];
  const int below = kDigitBits - std::countl_zero(digits[top - 1]);  // bits under the highest 64
  auto word = static_cast<uint64_t>(bits >> below);
  bool lost = (bits & ((absl::uint128(1) << below) - 1)) != 0;
  for (size_t i = 0; i + 3 < top; ++i) lost = lost || digits[i] != 0;
  if (lost) word |= 1;
  const int exponent = kLowestExponent + below + kDigitBits * static_cast<int>(top - 3);
  return std::ldexp(static_cast<double>(word), exponent);
}

// A byte with the form; if it is finite, a byte with the index of the first digit that is not 0,
// and the digits from there to the last one that is not 0.
std::string ExactSum::Serialize() const {
  if (special_ != 0) return {std::isinf(special_) ? kInfinite : kNotANumber};
  const Digits digits = ToDigits();
  size_t begin = 0;
  size_t end = kDigits;
  while (end > 0 && digits[end - 1] == 0) --end;
  while (begin < end && digits[begin] == 0) ++begin;
  std::string text = {kFinite, static_cast<char>(begin)};
  for (size_t i = begin; i < end; ++i) {
    for (int byte = 0; byte < 4; ++byte) text += static_cast<char>(digits[i] >> (8 * byte));
  }
  return text;
}

absl::StatusOr<ExactSum> ExactSum::Parse(std::string_view text) {
  ExactSum sum;
  if (text.size() == 1 && text[0] == kInfinite) {
    sum.special_ = std::numeric_limits<double>::infinity();
    return sum;
  }
  if (text.size() == 1 && text[0] == kNotANumber) {
    sum.special_ = std::numeric_limits<double>::quiet_NaN();
    return sum;
  }
  if (text.size() < 2 || text[0] != kFinite || text.size() % 4 != 2) {
    return InvalidArgument("an exact sum of {} bytes in an unknown form", text.size());
  }
  const auto begin = static_cast<size_t>(static_cast<uint8_t>(text[1]));
  const size_t count = (text.size() - 2) / 4;
  if (begin > kDigits || count > kDigits - begin) {
    return InvalidArgument("an exact sum with {} digits from {}; there are {}", count, begin,
                           kDigits);
  }
  for (size_t i = 0; i < count; ++i) {
    uint32_t digit = 0;
    for (size_t byte = 0; byte < 4; ++byte) {
      digit |= uint32_t{static_cast<uint8_t>(text[2 + 4 * i + byte])} << (8 * byte);
    }
    const size_t bin = std::min(begin + i, kBins - 1);
    sum.bins_[bin] += absl::uint128(digit) << (kDigitBits * (begin + i - bin));
  }
  return sum;
}

}  // namespace cohort
