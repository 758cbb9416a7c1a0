#include "common/device/graph_plan.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

namespace cohort {
namespace {

// Memory that ops name; nobody reads it.
std::array<char, 64> memory;

MemoryRange At(size_t offset, size_t bytes = 8) { return {memory.data() + offset, bytes}; }

// Adds an op that reads and writes these ranges, and returns the ops it waits for.
std::vector<int> Add(GraphPlan* plan, std::vector<MemoryRange> reads,
                     std::vector<MemoryRange> writes) {
  plan->Begin("op", std::move(reads), std::move(writes));
  plan->Add(HostCall{[] {}});
  return plan->ops().back().after;
}

TEST_CASE("ranges overlap if they share a byte") {
  CHECK(At(0, 8).Overlaps(At(7, 1)));
  CHECK(At(7, 1).Overlaps(At(0, 8)));
  CHECK(At(0, 8).Overlaps(At(2, 2)));
  CHECK_FALSE(At(0, 8).Overlaps(At(8, 8)));
  CHECK_FALSE(At(8, 8).Overlaps(At(0, 8)));
  CHECK_FALSE(At(0, 0).Overlaps(At(0, 8)));
}

TEST_CASE("an op runs after what writes the memory that it reads or writes") {
  GraphPlan plan;
  CHECK(Add(&plan, {}, {At(0)}).empty());
  SECTION("read after write") { CHECK(Add(&plan, {At(4)}, {At(32)}) == std::vector{0}); }
  SECTION("write after write") { CHECK(Add(&plan, {}, {At(7, 1)}) == std::vector{0}); }
}

TEST_CASE("an op runs after what reads the memory that it writes") {
  GraphPlan plan;
  CHECK(Add(&plan, {At(0)}, {At(32)}).empty());
  CHECK(Add(&plan, {At(16)}, {At(0)}) == std::vector{0});
}

TEST_CASE("ops that no memory connects have no edge") {
  GraphPlan plan;
  CHECK(Add(&plan, {At(0)}, {At(16)}).empty());
  SECTION("two that read the same") { CHECK(Add(&plan, {At(0)}, {At(24)}).empty()); }
  SECTION("adjacent ranges") { CHECK(Add(&plan, {At(8)}, {At(24), At(8)}).empty()); }
  SECTION("no memory at all") { CHECK(Add(&plan, {}, {}).empty()); }
  SECTION("an empty range") { CHECK(Add(&plan, {At(16, 0)}, {}).empty()); }
}

TEST_CASE("edges that others imply are left out") {
  GraphPlan plan;
  Add(&plan, {}, {At(0)});
  CHECK(Add(&plan, {At(0)}, {At(8)}) == std::vector{0});
  // It reads what both have written, but the second one has waited for the first.
  CHECK(Add(&plan, {At(0), At(8)}, {At(16)}) == std::vector{1});
  CHECK(Add(&plan, {At(16)}, {At(0)}) == std::vector{2});
}

TEST_CASE("an op has an edge from each end of a fork") {
  GraphPlan plan;
  Add(&plan, {}, {At(0)});
  CHECK(Add(&plan, {At(0)}, {At(8)}) == std::vector{0});
  CHECK(Add(&plan, {At(0)}, {At(16)}) == std::vector{0});
  std::vector<int> after = Add(&plan, {At(8), At(16)}, {At(24)});
  std::ranges::sort(after);
  CHECK(after == std::vector{1, 2});
}

TEST_CASE("a copy reads and writes its own ranges, and its bytes are counted") {
  GraphPlan plan;
  plan.AddCopy("up", {memory.data(), memory.data() + 32, 8, /*to_device=*/true});
  plan.AddCopy("up, too", {memory.data() + 8, memory.data() + 40, 4, /*to_device=*/true});
  plan.AddCopy("down", {memory.data() + 48, memory.data() + 4, 16, /*to_device=*/false});
  CHECK(plan.bytes_to_device() == 12);
  CHECK(plan.bytes_to_host() == 16);
  REQUIRE(plan.ops().size() == 3);
  CHECK(plan.ops()[1].after.empty());
  CHECK(plan.ops()[2].after.size() == 2);
  CHECK(plan.ops()[2].name == "down");
}

TEST_CASE("a copy of no bytes is no op") {
  GraphPlan plan;
  plan.AddCopy("nothing", {memory.data(), memory.data() + 32, 0, /*to_device=*/true});
  CHECK(plan.ops().empty());
  CHECK(plan.bytes_to_device() == 0);
}

TEST_CASE("several ops may share the ranges of one Begin") {
  GraphPlan plan;
  plan.Begin("sequence", {At(0)}, {At(8)});
  plan.Add(HostCall{[] {}});
  plan.Add(HostCall{[] {}});
  REQUIRE(plan.ops().size() == 2);
  CHECK(plan.ops()[1].after == std::vector{0});  // both write
}

}  // namespace
}  // namespace cohort
