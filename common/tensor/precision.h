#ifndef COHORT_COMMON_TENSOR_PRECISION_H_
#define COHORT_COMMON_TENSOR_PRECISION_H_

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cohort {

// The type to which operands of matrix products and convolutions are rounded (mixed precision).
// bfloat16 has 8 bits of exponent and 7 of mantissa. float16 (IEEE 754 binary16) has 5 and 10: it
// is more exact, but values above 65504 become infinite, and values below 2^-24 vanish.
enum class Precision : uint8_t { kFloat32, kBfloat16, kFloat16 };

constexpr std::string_view PrecisionName(Precision precision) {
  switch (precision) {
    case Precision::kBfloat16:
      return "bfloat16";
    case Precision::kFloat16:
      return "float16";
    case Precision::kFloat32:
      break;
  }
  return "float32";
}

// Nullopt for an unknown name.
constexpr std::optional<Precision> PrecisionFromName(std::string_view name) {
  for (const Precision p : {Precision::kFloat32, Precision::kBfloat16, Precision::kFloat16}) {
    if (name == PrecisionName(p)) return p;
  }
  return std::nullopt;
}

// The functions below round to the nearest value, and of two to the one with an even mantissa, as
// IEEE 754 does. NaN stays NaN. They are constexpr, so that code of devices may call them.

// The upper half of the float: sign, exponent and 7 bits of mantissa.
constexpr uint16_t Bfloat16Bits(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  return static_cast<uint16_t>((is_nan ? bits | 0x400000 : rounded) >> 16);
}

constexpr float FromBfloat16Bits(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// The float16 value as a float.
constexpr float RoundToFloat16(float x) {
  constexpr uint32_t kOverflow = 0x477ff000;  // 65520: half way between 65504 and 65536
  constexpr uint32_t kNormal = 0x38800000;    // 2^-14
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t normal = (magnitude + 0xfff + ((magnitude >> 13) & 1)) & ~uint32_t{0x1fff};
  const uint32_t infinite = magnitude > 0x7f800000 ? magnitude | 0x400000 : 0x7f800000;
  // A sum in [0.5, 1) is a multiple of 2^-24, as subnormal numbers of float16 are.
  const float small = magnitude < kNormal ? std::bit_cast<float>(magnitude) : 0.0f;
  const uint32_t subnormal = std::bit_cast<uint32_t>((small + 0.5f) - 0.5f);
  const uint32_t rounded = magnitude >= kOverflow ? infinite
                           : magnitude >= kNormal ? normal
                                                  : subnormal;
  return std::bit_cast<float>(rounded | (bits & 0x80000000));
}

// Sign, 5 bits of exponent and 10 of mantissa.
constexpr uint16_t Float16Bits(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(RoundToFloat16(x));
  const uint32_t magnitude = bits & 0x7fffffff;
  uint32_t half = 0;
  if (magnitude > 0x7f800000) {
    half = 0x7e00;
  } else if (magnitude == 0x7f800000) {
    half = 0x7c00;
  } else if (magnitude >= 0x38800000) {
    half = (magnitude >> 13) - (112u << 10);
  } else {
    half = static_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p24f);
  }
  return static_cast<uint16_t>(half | ((bits >> 16) & 0x8000));
}

constexpr float FromFloat16Bits(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f, mantissa = bits & 0x3ff;
  uint32_t magnitude = ((exponent + 112) << 23) | (mantissa << 13);
  if (exponent == 0) magnitude = std::bit_cast<uint32_t>(static_cast<float>(mantissa) * 0x1p-24f);
  if (exponent == 0x1f) magnitude = 0x7f800000 | (mantissa << 13);
  return std::bit_cast<float>(sign | magnitude);
}

// The same by type.
constexpr uint16_t BitsOf(Precision precision, float x) {
  return precision == Precision::kBfloat16 ? Bfloat16Bits(x) : Float16Bits(x);
}
constexpr float FromBits(Precision precision, uint16_t bits) {
  return precision == Precision::kBfloat16 ? FromBfloat16Bits(bits) : FromFloat16Bits(bits);
}
constexpr float RoundTo(Precision precision, float x) {
  switch (precision) {
    case Precision::kBfloat16:
      return FromBfloat16Bits(Bfloat16Bits(x));
    case Precision::kFloat16:
      return RoundToFloat16(x);
    case Precision::kFloat32:
      break;
  }
  return x;
}

}  // namespace cohort

#endif  // COHORT_COMMON_TENSOR_PRECISION_H_
