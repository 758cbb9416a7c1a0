#include "common/tensor/philox.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace cohort {
namespace {

// Known-answer vectors of Random123 (tests/kat_vectors, philox4x32 10).
TEST_CASE("Philox4x32-10 gives the published answers") {
  REQUIRE(Philox({0, 0, 0, 0}, {0, 0}) ==
          PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  REQUIRE(Philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
          PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  REQUIRE(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
          PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("the 64-bit form is the same function") {
  REQUIRE(Philox(0x85a308d3243f6a88, 0x0370734413198a2e, 0x299f31d0a4093822) ==
          PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("uniform numbers lie in [0, 1) and are spread evenly") {
  REQUIRE(UniformFromBits(0) == 0.0);
  REQUIRE(UniformFromBits(~uint64_t{0}) < 1.0);
  double sum = 0, squares = 0;
  constexpr int kCount = 20000;
  for (int i = 0; i < kCount; ++i) {
    const double u = UniformFromBits(PhiloxMix(static_cast<uint64_t>(i), 7));
    sum += u;
    squares += u * u;
  }
  REQUIRE(std::abs(sum / kCount - 0.5) < 0.01);
  REQUIRE(std::abs(squares / kCount - 1.0 / 3) < 0.01);
}

}  // namespace
}  // namespace cohort
