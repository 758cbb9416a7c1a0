#include "common/row_figures/hot_keys.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

namespace cohort {
namespace {

// Batches of a power law: the key k is in a batch with the probability 1 / (1 + k / 4).
std::vector<int64_t> Batch(int64_t keys, std::mt19937_64* random) {
  std::vector<int64_t> batch;
  for (int64_t key = 0; key < keys; ++key) {
    const double part = 1 / (1 + static_cast<double>(key) / 4);
    if (std::uniform_real_distribution<double>()(*random) < part) batch.push_back(key);
  }
  return batch;
}

TEST_CASE("the hottest keys of many are found") {
  HotKeys hot;
  std::mt19937_64 random(7);
  constexpr int kBatches = 20000;
  for (int i = 0; i < kBatches; ++i) hot.Add(Batch(4000, &random));
  const auto top = hot.Top(5);
  REQUIRE(top.size() == 5);
  for (const auto& [key, count] : top) {
    CAPTURE(key);
    CHECK(key < 12);
    const double expected = kBatches / (1 + static_cast<double>(key) / 4);
    CHECK(static_cast<double>(count) > 0.5 * expected);
    CHECK(static_cast<double>(count) < 1.6 * expected);
  }
  CHECK(
      std::ranges::is_sorted(top, std::ranges::greater(), [](const auto& t) { return t.second; }));
}

TEST_CASE("memory is bounded, and the error is reported") {
  HotKeys equal;
  std::vector<int64_t> keys(4 * HotKeys::kMostKeys);
  std::iota(keys.begin(), keys.end(), 0);
  for (int round = 0; round < 3000; ++round) equal.Add(keys);
  CHECK(equal.Top(keys.size()).size() <= HotKeys::kMostKeys);
  CHECK(equal.error() >= HotKeys::kSampled);

  // No key comes twice: what the sketch has is there by chance, and is not shown.
  HotKeys once;
  for (int round = 0; round < 300; ++round) {
    once.Add(keys);
    for (int64_t& key : keys) key += static_cast<int64_t>(keys.size());
  }
  CHECK(once.Top(keys.size()).empty());
}

TEST_CASE("the distances have the mean kSampled") {
  HotKeys hot;
  const std::vector<int64_t> one = {42};
  constexpr uint64_t kCalls = HotKeys::kSampled * 4000;
  for (uint64_t i = 0; i < kCalls; ++i) hot.Add(one);
  const auto top = hot.Top(3);
  REQUIRE(top.size() == 1);
  CHECK(top[0].first == 42);
  CHECK(static_cast<double>(top[0].second) == Approx(kCalls).epsilon(0.05));
}

}  // namespace
}  // namespace cohort
