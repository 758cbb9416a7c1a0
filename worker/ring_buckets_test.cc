#include "worker/ring_buckets.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "common/exchange/exchange_test_world.h"

namespace cohort {
namespace {

using exchange_test::Step;
using exchange_test::World;

// The variables of World, whose servers are ps:0 (tablets 0 and 1) and ps:1 (tablet 2): `dense` has
// rows 0..4 on ps:0, 5..6 on ps:1, and `bias` lies on ps:0. The gradient of `table` is sparse.
Program MakeProgram(const World& world) {
  Program program;
  program.variables = world.decls;
  for (int v = 0; v < 3; ++v) {
    program.values.push_back(world.decls[static_cast<size_t>(v)].type);
    program.pushes.push_back({.variable = v, .value = v});
  }
  program.values.push_back({DType::kInt64, {}});
  program.pushes[1].keys = 3;
  return program;
}

std::unique_ptr<RingBuckets> Make(const Program& program, const World& world, int rank,
                                  uint64_t bucket_bytes) {
  const uint32_t servers[] = {0, 1};
  auto made = RingBuckets::Make(program, world.routes, servers, rank, bucket_bytes);
  REQUIRE(made.ok());
  return *std::move(made);
}

TEST_CASE("buckets go from the last push to the first, and their parts are those of the servers") {
  World world;
  const Program program = MakeProgram(world);
  const auto one = Make(program, world, 0, 1 << 20);
  REQUIRE(one->size() == 1);
  CHECK(std::vector<size_t>(one->pushes(0).begin(), one->pushes(0).end()) ==
        std::vector<size_t>{2, 0});
  CHECK(one->bucket_of(1) == -1);
  CHECK(one->buffer(0).elements() == 22);
  CHECK(std::vector<uint64_t>(one->part_ends(0).begin(), one->part_ends(0).end()) ==
        std::vector<uint64_t>{16, 22});
  const auto two = Make(program, world, 1, 4);
  REQUIRE(two->size() == 2);
  CHECK(two->bucket_of(2) == 0);
  CHECK(two->bucket_of(0) == 1);
  CHECK(two->part_ends(0)[0] == 1);
  CHECK(two->part_ends(0)[1] == 1);  // ps:1 has nothing of it
}

TEST_CASE("a bucket has the sum of the closures, and the owner finds its shards there") {
  World world;
  const Program program = MakeProgram(world);
  for (const int rank : {0, 1}) {
    const auto buckets = Make(program, world, rank, 1 << 20);
    Step first({1});
    Step second({2});
    std::iota(first.dense_gradient.begin(), first.dense_gradient.end(), 0.0f);
    second.dense_gradient.assign(21, 100);
    first.bias_gradient = 5;
    second.bias_gradient = 6;
    buckets->Add(0, first.Push(1).items, /*first=*/true);
    buckets->Add(0, second.Push(2).items, /*first=*/false);
    const auto sums = buckets->own_sums();
    const auto at = [&](size_t i, size_t element) {
      return static_cast<const float*>(sums[i].values)[element];
    };
    if (rank == 1) {
      REQUIRE(sums.size() == 1);
      CHECK(sums[0].shard == 2);
      CHECK(at(0, 0) == 115);
      CHECK(at(0, 5) == 120);
      continue;
    }
    REQUIRE(sums.size() == 3);
    CHECK(sums[0].shard == 0);
    CHECK(sums[1].shard == 1);
    CHECK(sums[2].shard == 5);
    CHECK(at(0, 0) == 100);
    CHECK(at(1, 0) == 109);
    CHECK(at(2, 0) == 11);
    // A new step begins with other values.
    buckets->Add(0, second.Push(3).items, /*first=*/true);
    CHECK(at(2, 0) == 6);
  }
}

}  // namespace
}  // namespace cohort
