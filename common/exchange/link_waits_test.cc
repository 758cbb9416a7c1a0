#include "common/exchange/link_waits.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <thread>

namespace cohort {
namespace {

TEST_CASE("the middle of a wait's bucket is wrong by at most an eighth") {
  size_t last = 0;
  for (int64_t us = 0; us < int64_t{1} << 32; us = us < 64 ? us + 1 : us + us / 13) {
    const size_t bucket = LinkWaits::BucketOf(us);
    REQUIRE(bucket < LinkWaits::kBuckets);
    REQUIRE(bucket >= last);
    last = bucket;
    INFO(us);
    REQUIRE(std::abs(LinkWaits::MiddleOf(bucket) - static_cast<double>(us)) <=
            std::max(0.5, static_cast<double>(us) / 8));
  }
  CHECK(LinkWaits::BucketOf(-1) == 0);
  CHECK(LinkWaits::BucketOf(INT64_MAX) == LinkWaits::BucketOf(UINT32_MAX));
}

TEST_CASE("a take has the quantiles of each server since the one before") {
  LinkWaits waits;
  CHECK(waits.Take().empty());
  for (int i = 0; i < 98; ++i) waits.Add(2, 400);
  for (int i = 0; i < 2; ++i) waits.Add(2, 50'000);
  waits.Add(0, 3);
  const std::vector<LinkWait> taken = waits.Take();
  REQUIRE(taken.size() == 2);
  CHECK(taken[0].server == 0);
  CHECK(taken[0].requests == 1);
  CHECK(taken[0].p99_seconds == 3e-6);
  CHECK(taken[1].server == 2);
  CHECK(taken[1].requests == 100);
  CHECK(taken[1].p50_seconds == Approx(400e-6).epsilon(0.13));
  CHECK(taken[1].p99_seconds == Approx(0.05).epsilon(0.13));
  CHECK(waits.Take().empty());
  waits.Add(2, 7'000);
  REQUIRE(waits.Take().size() == 1);
}

TEST_CASE("no wait is lost or counted twice between two threads") {
  LinkWaits waits;
  constexpr uint64_t kWaits = 200'000;
  std::thread adds([&] {
    for (uint64_t i = 0; i < kWaits; ++i) waits.Add(i % 3, static_cast<int64_t>(i));
  });
  uint64_t taken = 0;
  while (taken < kWaits) {
    for (const LinkWait& wait : waits.Take()) taken += wait.requests;
  }
  adds.join();
  CHECK(taken == kWaits);
  CHECK(waits.Take().empty());
}

}  // namespace
}  // namespace cohort
