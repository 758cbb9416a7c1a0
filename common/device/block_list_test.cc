#include "common/device/block_list.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

namespace cohort {
namespace {

TEST_CASE("sizes of blocks are rounded up to 256 bytes") {
  CHECK(BlockList::Rounded(0) == 256);
  CHECK(BlockList::Rounded(1) == 256);
  CHECK(BlockList::Rounded(256) == 256);
  CHECK(BlockList::Rounded(257) == 512);
  BlockList list(1000);  // three whole units
  CHECK(list.largest_free() == 768);
  CHECK(list.Take(1) == 0);
  CHECK(list.Take(512) == 256);
  CHECK(list.Take(0) == std::nullopt);
}

TEST_CASE("the first block that is large enough is taken") {
  BlockList list(4096);
  CHECK(list.Take(1024) == 0);
  CHECK(list.Take(256) == 1024);
  CHECK(list.Take(512) == 1280);
  list.Give(0);
  list.Give(1024);
  CHECK(list.Take(1280) == 0);  // the two that were given back, as one
  CHECK(list.Take(4096) == std::nullopt);
}

TEST_CASE("neighbors that are free are joined in whatever order they come back") {
  const bool backwards = GENERATE(false, true);
  BlockList list(768);
  for (size_t i = 0; i < 3; ++i) REQUIRE(list.Take(256) == 256 * i);
  CHECK(list.largest_free() == 0);
  list.Give(backwards ? 512 : 0);
  list.Give(backwards ? 0 : 512);
  CHECK(list.largest_free() == 256);
  list.Give(256);
  CHECK(list.largest_free() == 768);
  list.Give(256);  // unknown: nothing happens
  CHECK(list.largest_free() == 768);
}

TEST_CASE("blocks never overlap, and all memory comes back") {
  constexpr size_t kBytes = 1 << 16;
  std::mt19937 random(7);
  BlockList list(kBytes);
  std::map<size_t, size_t> taken;  // offset -> end
  for (int i = 0; i < 2000; ++i) {
    const size_t bytes = random() % 3000 + 1;
    const auto offset = list.Take(bytes);
    if (offset.has_value()) {
      const size_t end = *offset + bytes;
      REQUIRE(end <= kBytes);
      const auto next = taken.lower_bound(*offset);
      if (next != taken.end()) REQUIRE(end <= next->first);
      if (next != taken.begin()) REQUIRE(std::prev(next)->second <= *offset);
      taken.emplace(*offset, end);
    }
    if (!taken.empty() && (!offset.has_value() || random() % 2 == 0)) {
      const auto given =
          std::next(taken.begin(), static_cast<std::ptrdiff_t>(random() % taken.size()));
      list.Give(given->first);
      taken.erase(given);
    }
  }
  for (const auto& [offset, end] : taken) list.Give(offset);
  CHECK(list.largest_free() == kBytes);
}

}  // namespace
}  // namespace cohort
