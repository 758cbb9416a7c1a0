#include "common/collective/shared_cells.h"

#include <catch2/catch.hpp>

namespace cohort {
namespace {

TEST_CASE("a cell is taken once until it is released") {
  auto cells = SharedCells::Create(1000, 2);
  REQUIRE(cells.ok());
  const uint64_t first = (*cells)->Take();
  const uint64_t second = (*cells)->Take();
  CHECK(first != 0);
  CHECK(second != 0);
  CHECK(first != second);
  CHECK((*cells)->segment().Contains(second, 1000));
  CHECK((*cells)->Take() == 0);
  CHECK((*cells)->Release(first));
  CHECK((*cells)->Take() == first);
}

TEST_CASE("a cell that was not taken cannot be released") {
  auto cells = SharedCells::Create(1000, 2);
  REQUIRE(cells.ok());
  const uint64_t begin = (*cells)->Take();
  CHECK(!(*cells)->Release(begin + 1));  // no cell begins there
  CHECK(!(*cells)->Release(0));
  CHECK(!(*cells)->Release(uint64_t{1} << 40));
  CHECK((*cells)->Release(begin));
  CHECK(!(*cells)->Release(begin));
}

}  // namespace
}  // namespace cohort
