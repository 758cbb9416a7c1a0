#include "common/collective/shared_slots.h"

namespace cohort {
namespace {

TEST_CASE("each reader has its own slots") {
  auto slots = SharedSlots::Create(1000, 2, 3);
  REQUIRE(slots.ok());
  const uint64_t first = (*slots)->Take(1, 7);
  const uint64_t second = (*slots)->Take(1, 7);
  CHECK(first != 0);
  CHECK(second != 0);
  CHECK(first != second);
  CHECK((*slots)->segment().Contains(second, 1000));
  CHECK((*slots)->Take(1, 7) == 0);
  CHECK((*slots)->free_slots(2) == 2);
  CHECK((*slots)->Take(2, 7) != 0);
  CHECK((*slots)->Release(1, first) == 7);
  CHECK((*slots)->Take(1, 9) == first);
}

TEST_CASE("a slot that was not taken cannot be released") {
  auto slots = SharedSlots::Create(1000, 2, 2);
  REQUIRE(slots.ok());
  const uint64_t begin = (*slots)->Take(0, 5);
  CHECK((*slots)->Release(1, begin) == 0);      // another reader's
  CHECK((*slots)->Release(0, begin + 1) == 0);  // no slot begins there
  CHECK((*slots)->Release(0, 0) == 0);
  CHECK((*slots)->Release(0, uint64_t{1} << 40) == 0);
  CHECK((*slots)->Release(0, begin) == 5);
  CHECK((*slots)->Release(0, begin) == 0);
}

}  // namespace
}  // namespace cohort
