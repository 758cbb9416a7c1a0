#include "chief/job/ring_choice.h"

#include <catch2/catch.hpp>

namespace cohort {
namespace {

TEST_CASE("a ring is chosen for gradients if it saves many bytes") {
  constexpr uint64_t kMb = 1 << 20;
  CHECK(RingSavesBytes(32 * kMb, 4, 2));
  CHECK(!RingSavesBytes(31 * kMb, 4, 2));
  CHECK(!RingSavesBytes(1000 * kMb, 3, 2));  // one replica has one closure
  CHECK(!RingSavesBytes(1000 * kMb, 4, 4));
  CHECK(!RingSavesBytes(1000 * kMb, 8, 1));
  CHECK(RingSavesBytes(8 * kMb, 16, 4));
}

}  // namespace
}  // namespace cohort
