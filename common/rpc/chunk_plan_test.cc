#include "common/rpc/chunk_plan.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace cohort {
namespace {

// Every unit of every item comes once, in order; no message is over the target unless it is one
// unit.
void CheckPlan(const std::vector<ChunkItem>& items, size_t target, const ChunkPlan& plan) {
  REQUIRE(plan.message_count() > 0);
  CHECK(plan.is_last(plan.message_count() - 1));
  size_t item = 0;
  uint64_t unit = 0;
  std::vector<bool> seen(items.size(), false);
  for (size_t m = 0; m < plan.message_count(); ++m) {
    uint64_t bytes = 0, units = 0;
    for (const ChunkPart& part : plan.message(m)) {
      while (item < part.item) {
        REQUIRE(unit == items[item].units);
        REQUIRE(seen[item]);
        ++item;
        unit = 0;
      }
      REQUIRE(part.item == item);
      REQUIRE(part.begin == unit);
      seen[item] = true;
      unit += part.count;
      units += part.count;
      bytes += part.count * items[item].bytes_per_unit;
    }
    const bool fits = bytes <= target || units == 1;
    CHECK(fits);
    if (m + 1 < plan.message_count()) CHECK(units > 0);
  }
  if (!items.empty()) {
    REQUIRE(item == items.size() - 1);
    REQUIRE(unit == items.back().units);
  }
}

TEST_CASE("a plan of one large tensor") {
  ChunkPlan plan;
  const std::vector<ChunkItem> items = {{.units = 16 << 20, .bytes_per_unit = 4}};
  plan.Plan(items, 1 << 20);
  CHECK(plan.message_count() == 64);
  CHECK(plan.message(63)[0].begin == 63u * (1 << 18));
  CHECK_FALSE(plan.is_last(62));
  CheckPlan(items, 1 << 20, plan);
}

TEST_CASE("small items share a message, empty ones keep their place") {
  ChunkPlan plan;
  const std::vector<ChunkItem> items = {{10, 4}, {0, 4}, {3, 68}, {0, 0}};
  plan.Plan(items);
  REQUIRE(plan.message_count() == 1);
  CHECK(plan.message(0).size() == 4);
  CheckPlan(items, ChunkPlan::kTargetBytes, plan);
  plan.Plan({});
  CHECK(plan.message_count() == 1);
  CHECK(plan.message(0).empty());
}

TEST_CASE("a unit over the target has a message of its own") {
  ChunkPlan plan;
  const std::vector<ChunkItem> items = {{2, 10}, {3, 5000}, {5, 10}};
  plan.Plan(items, 100);
  CheckPlan(items, 100, plan);
  CHECK(plan.message_count() == 5);
}

TEST_CASE("random plans") {
  std::mt19937 random(3);
  ChunkPlan plan;
  for (int round = 0; round < 500; ++round) {
    std::vector<ChunkItem> items(random() % 8);
    for (auto& item : items) item = {random() % 300, random() % 50};
    const size_t target = 1 + random() % 2000;
    plan.Plan(items, target);
    CheckPlan(items, target, plan);
  }
}

}  // namespace
}  // namespace cohort
