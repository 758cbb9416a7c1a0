#include "common/tensor/precision.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace cohort {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The value of a 16-bit type with this many bits of mantissa, by its definition.
double ValueOf(uint16_t bits, int mantissa_bits, int bias) {
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int most = (1 << (15 - mantissa_bits)) - 1;
  const int exponent = (bits >> mantissa_bits) & most;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == most) return mantissa != 0 ? std::nan("") : sign * kInfinity;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

struct Type {
  Precision precision;
  int mantissa_bits, bias;
};
constexpr Type kTypes[] = {{Precision::kBfloat16, 7, 127}, {Precision::kFloat16, 10, 15}};

TEST_CASE("every 16-bit value is a float and comes back") {
  for (const Type& type : kTypes) {
    for (uint32_t i = 0; i <= 0xffff; ++i) {
      const auto bits = static_cast<uint16_t>(i);
      const double expected = ValueOf(bits, type.mantissa_bits, type.bias);
      const float value = FromBits(type.precision, bits);
      if (std::isnan(expected)) {
        REQUIRE(std::isnan(value));
        REQUIRE(std::isnan(FromBits(type.precision, BitsOf(type.precision, value))));
        continue;
      }
      // Denormal numbers count as zero.
      if (expected != 0 && std::abs(expected) < std::numeric_limits<float>::min()) continue;
      REQUIRE(static_cast<double>(value) == expected);
      REQUIRE(BitsOf(type.precision, value) == bits);
      REQUIRE(std::bit_cast<uint32_t>(RoundTo(type.precision, value)) ==
              std::bit_cast<uint32_t>(value));
    }
  }
}

// Between each pair of neighbors: the middle goes to the even one, and what is beside it to the
// nearer one.
TEST_CASE("floats round to the nearest value, and ties to the even one") {
  for (const Type& type : kTypes) {
    const uint16_t infinity = BitsOf(type.precision, kInfinity);
    for (uint16_t low = 0; low + 1 < infinity; ++low) {
      const uint16_t high = static_cast<uint16_t>(low + 1);
      const float a = FromBits(type.precision, low), b = FromBits(type.precision, high);
      const float middle = a + (b - a) / 2;      // exact: a float has more bits
      if (middle == a || middle == b) continue;  // subnormal floats have no middle
      const uint16_t even = (low & 1) == 0 ? low : high;
      for (const float sign : {1.0f, -1.0f}) {
        const auto rounds_to = [&](float x, uint16_t bits) {
          const float to = sign * FromBits(type.precision, bits);
          return BitsOf(type.precision, sign * x) == (sign < 0 ? bits | 0x8000 : bits) &&
                 RoundTo(type.precision, sign * x) == to;
        };
        REQUIRE(rounds_to(middle, even));
        REQUIRE(rounds_to(std::nextafter(middle, a), low));
        REQUIRE(rounds_to(std::nextafter(middle, b), high));
      }
    }
  }
}

TEST_CASE("values out of range become infinite, and NaN stays NaN") {
  CHECK(RoundTo(Precision::kFloat16, 65504.0f) == 65504.0f);
  CHECK(RoundTo(Precision::kFloat16, std::nextafter(65520.0f, 0.0f)) == 65504.0f);
  CHECK(RoundTo(Precision::kFloat16, 65520.0f) == kInfinity);
  CHECK(RoundTo(Precision::kFloat16, -1e9f) == -kInfinity);
  CHECK(RoundTo(Precision::kFloat16, 0x1p-25f) == 0.0f);
  CHECK(std::signbit(RoundTo(Precision::kFloat16, -0x1p-30f)));
  CHECK(RoundTo(Precision::kBfloat16, std::numeric_limits<float>::max()) == kInfinity);
  for (const Type& type : kTypes) {
    for (const uint32_t bits : {0x7f800001u, 0x7fc00000u, 0xffffffffu}) {
      CHECK(std::isnan(RoundTo(type.precision, std::bit_cast<float>(bits))));
      CHECK(
          std::isnan(FromBits(type.precision, BitsOf(type.precision, std::bit_cast<float>(bits)))));
    }
  }
}

TEST_CASE("a precision has a name") {
  for (const Precision p : {Precision::kFloat32, Precision::kBfloat16, Precision::kFloat16}) {
    CHECK(PrecisionFromName(PrecisionName(p)) == p);
  }
  CHECK(!PrecisionFromName("int8").has_value());
}

}  // namespace
}  // namespace cohort
