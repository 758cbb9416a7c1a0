#include "common/exec/memory_plan.h"

#include <catch2/catch.hpp>
#include <random>

namespace cohort {
namespace {

TEST_CASE("blocks that never live together share memory") {
  const MemoryBlock blocks[] = {{100, 0, 1}, {100, 2, 3}, {100, 4, 4}};
  const MemoryPlan plan = PlanMemory(blocks);
  REQUIRE(plan.bytes == 128);
}

TEST_CASE("a block fills the gap that fits it best") {
  // 0..128 and 192..256 are free at step 1 beside two long-lived blocks.
  const MemoryBlock blocks[] = {{256, 0, 0}, {256, 1, 1}, {64, 0, 2}};
  const MemoryPlan plan = PlanMemory(blocks);
  REQUIRE(plan.bytes == 320);
}

TEST_CASE("no two living blocks overlap, and little is wasted") {
  const unsigned seed = 20240607;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    std::vector<MemoryBlock> blocks;
    for (int i = 0; i < 60; ++i) {
      const int first = static_cast<int>(random() % 40);
      blocks.push_back({random() % 5000, first, first + static_cast<int>(random() % 10)});
    }
    const MemoryPlan plan = PlanMemory(blocks);
    size_t needed = 0;  // at the fullest step
    for (int step = 0; step < 50; ++step) {
      size_t now = 0;
      for (const MemoryBlock& b : blocks) {
        if (b.first <= step && step <= b.last) now += (b.bytes + 63) / 64 * 64;
      }
      needed = std::max(needed, now);
    }
    for (size_t i = 0; i < blocks.size(); ++i) {
      REQUIRE(plan.offsets[i] % 64 == 0);
      REQUIRE(plan.offsets[i] + blocks[i].bytes <= plan.bytes);
      for (size_t j = 0; j < i; ++j) {
        const bool together =
            blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
        const bool apart = plan.offsets[i] + blocks[i].bytes <= plan.offsets[j] ||
                           plan.offsets[j] + blocks[j].bytes <= plan.offsets[i];
        REQUIRE((!together || apart));
      }
    }
    REQUIRE(plan.bytes >= needed);
    REQUIRE(static_cast<double>(plan.bytes) <= 1.5 * static_cast<double>(needed));
  }
}

}  // namespace
}  // namespace cohort
