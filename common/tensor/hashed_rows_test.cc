#include "common/tensor/hashed_rows.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <vector>

namespace cohort {
namespace {

TEST_CASE("each row has one place, and shards have nearly equal sizes") {
  const int64_t rows = GENERATE(1, 2, 7, 64, 1000, 1003);
  const int64_t shards = GENERATE(1, 2, 3, 4, 7);
  const HashedRows hashed(rows, shards);
  CAPTURE(rows, shards);
  std::vector<int64_t> next(static_cast<size_t>(shards));  // the rows of a shard ascend
  for (int64_t row = 0; row < rows; ++row) {
    const HashedRows::Place place = hashed.PlaceOf(row);
    REQUIRE(place.shard >= 0);
    REQUIRE(place.shard < shards);
    REQUIRE(place.row == next[static_cast<size_t>(place.shard)]++);
    REQUIRE(hashed.RowAt(place) == row);
  }
  int64_t begin = 0;
  for (int64_t shard = 0; shard < shards; ++shard) {
    CHECK(hashed.RowsOf(shard) == next[static_cast<size_t>(shard)]);
    CHECK(hashed.BeginOf(shard) == begin);
    begin += hashed.RowsOf(shard);
  }
  CHECK(begin == rows);
}

TEST_CASE("ids with a common divisor do not share a shard") {
  constexpr int64_t kShards = 4;
  const HashedRows hashed(1'000'000, kShards);
  for (const int64_t divisor : {1, 2, 4, 64, 1000}) {
    std::vector<double> ids(kShards);
    for (int64_t row = 0; row < 1'000'000; row += divisor) {
      ids[static_cast<size_t>(hashed.PlaceOf(row).shard)] += static_cast<double>(divisor);
    }
    CAPTURE(divisor);
    for (const double part : ids) CHECK(part == Approx(250'000).epsilon(0.15));
  }
}

TEST_CASE("rows are read from and into shards") {
  const int64_t rows = GENERATE(5, 64, 1003);
  const HashedRows hashed(rows, 4);
  std::vector<int64_t> variable(static_cast<size_t>(rows));
  std::iota(variable.begin(), variable.end(), 0);
  const auto from = [](const std::vector<int64_t>& all) {
    return [&all](int64_t begin, int64_t count, std::span<uint8_t> out) {
      REQUIRE(begin + count <= static_cast<int64_t>(all.size()));
      REQUIRE(out.size() == static_cast<size_t>(count) * sizeof(int64_t));
      std::memcpy(out.data(), all.data() + begin, out.size());
      return absl::OkStatus();
    };
  };
  const auto bytes_of = [](std::vector<int64_t>* numbers) {
    return std::span(reinterpret_cast<uint8_t*>(numbers->data()), numbers->size() * 8);
  };
  std::vector<int64_t> shards;
  for (int64_t shard = 0; shard < 4; ++shard) {
    std::vector<int64_t> part(static_cast<size_t>(hashed.RowsOf(shard)));
    REQUIRE(ReadHashedShard(hashed, {shard, 0}, 8, bytes_of(&part), from(variable)).ok());
    for (size_t i = 0; i < part.size(); ++i) {
      REQUIRE(part[i] == hashed.RowAt({shard, static_cast<int64_t>(i)}));
    }
    if (part.size() > 2) {
      std::vector<int64_t> some(part.size() - 2);
      REQUIRE(ReadHashedShard(hashed, {shard, 1}, 8, bytes_of(&some), from(variable)).ok());
      CHECK(std::equal(some.begin(), some.end(), part.begin() + 1));
    }
    shards.insert(shards.end(), part.begin(), part.end());
  }
  for (int64_t begin : {int64_t{0}, int64_t{3}}) {
    std::vector<int64_t> read(static_cast<size_t>(rows - begin), -1);
    REQUIRE(ReadFromHashedShards(hashed, begin, 8, bytes_of(&read), from(shards)).ok());
    CHECK(std::equal(read.begin(), read.end(), variable.begin() + begin));
  }
}

}  // namespace
}  // namespace cohort
