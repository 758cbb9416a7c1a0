#include "common/tensor/compact_bytes.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <random>

namespace cohort {
namespace {

TEST_CASE("keys below 2^32 fit in 32 bits, and come back") {
  std::mt19937_64 random(1);
  std::vector<int64_t> keys(1000), wide(1000);
  for (int64_t& key : keys) key = static_cast<int64_t>(random() >> 32);
  keys[3] = 0xffffffff;
  std::vector<uint32_t> narrow(1000);
  REQUIRE(NarrowKeys(keys, narrow.data()));
  WidenKeys({reinterpret_cast<const uint8_t*>(narrow.data()), 4000}, wide.data());
  CHECK(wide == keys);
  for (const int64_t large : {int64_t{1} << 32, int64_t{-1}, int64_t{1} << 62}) {
    keys[999] = large;
    CHECK(!NarrowKeys(keys, narrow.data()));
  }
  CHECK(NarrowKeys({}, nullptr));
}

TEST_CASE("words with empty lower halves fit in 16 bits, and come back at any address") {
  std::mt19937 random(1);
  std::vector<uint32_t> words(777), wide(777);
  for (uint32_t& word : words) word = static_cast<uint32_t>(random()) & 0xffff0000;
  std::vector<uint8_t> bytes(1 + 4 * words.size());
  std::memcpy(bytes.data() + 1, words.data(), 4 * words.size());
  std::vector<uint16_t> narrow(words.size());
  REQUIRE(NarrowWords(std::span(bytes).subspan(1), narrow.data()));
  std::memcpy(bytes.data() + 1, narrow.data(), 2 * words.size());
  WidenWords(std::span(bytes).subspan(1, 2 * words.size()), wide.data());
  CHECK(wide == words);
  words[776] |= 1;
  CHECK(!NarrowWords({reinterpret_cast<const uint8_t*>(words.data()), 4 * words.size()},
                     narrow.data()));
}

TEST_CASE("pieces of stable memory stay where they are until it is reset") {
  StableMemory memory;
  std::vector<uint8_t*> pieces;
  for (size_t i = 0; i < 100; ++i) {
    pieces.push_back(memory.Take(1000 * i + 1));
    CHECK(reinterpret_cast<uintptr_t>(pieces.back()) % 8 == 0);
    std::memset(pieces.back(), static_cast<int>(i), 1000 * i + 1);
  }
  for (size_t i = 0; i < 100; ++i) {
    CHECK(pieces[i][0] == i);
    CHECK(pieces[i][1000 * i] == i);
  }
  uint8_t* const undone = memory.Take(8);
  memory.Undo(8);
  CHECK(memory.Take(8) == undone);
  memory.Reset(size_t{1} << 20);
  CHECK(memory.bytes() > 0);
  CHECK(memory.bytes() <= size_t{1} << 20);
  memory.Reset(0);
  CHECK(memory.bytes() == 0);
}

}  // namespace
}  // namespace cohort
