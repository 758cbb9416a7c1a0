#include "common/placement/placement.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "common/base/status.h"
#include "common/placement/placement_test_util.h"
#include "common/placement/shard_plan.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

v1::Layout Make(const std::vector<v1::VariableSpec>& variables, uint64_t shards,
                const std::string& strategy, std::vector<int> cores) {
  PlacementOptions options;
  options.strategy = strategy;
  options.cores = std::move(cores);
  auto layout = MakeLayout(variables, FixedShards(shards), {}, options);
  INFO(layout.status());
  REQUIRE(layout.ok());
  return *std::move(layout);
}

std::vector<uint32_t> PsOfShards(const v1::Layout& layout) {
  std::vector<uint32_t> ps;
  for (const v1::ShardSpec& shard : layout.shards()) {
    ps.push_back(layout.tablets(static_cast<int>(shard.tablet())).ps());
  }
  return ps;
}

// The recommender's variables, in Keras' order.
const std::vector<v1::VariableSpec> kRecommender = {Variable("embedding/embeddings", {8, 20}, true),
                                                    Variable("dense/kernel", {20, 1}),
                                                    Variable("dense/bias", {1})};

TEST_CASE("round robin is one counter over all shards") {
  CHECK(PsOfShards(Make(kRecommender, 2, "round_robin", {1, 1})) ==
        std::vector<uint32_t>{0, 1, 0, 1, 0});
  CHECK(PsOfShards(Make(kRecommender, 2, "round_robin", {1, 1, 1})) ==
        std::vector<uint32_t>{0, 1, 2, 0, 1});
}

TEST_CASE("balanced: shards of one variable lie on different servers") {
  const auto ps = PsOfShards(Make(kRecommender, 2, "balanced", {1, 1}));
  CHECK(ps[0] != ps[1]);
  CHECK(ps[2] != ps[3]);
}

TEST_CASE("balanced: loads differ by no more than the heaviest shard") {
  std::vector<v1::VariableSpec> variables;
  for (int i = 0; i < 40; ++i) {
    variables.push_back(Variable("v" + std::to_string(i), {100 + 37 * (i % 11), 16}));
  }
  const v1::Layout layout = Make(variables, 1, "", {1, 1, 1});
  std::map<uint32_t, uint64_t> rows;
  const auto ps = PsOfShards(layout);
  for (size_t i = 0; i < ps.size(); ++i) rows[ps[i]] += layout.shards(static_cast<int>(i)).rows();
  REQUIRE(rows.size() == 3);
  for (const auto& a : rows) {
    for (const auto& b : rows) CHECK(a.second <= b.second + 470);
  }
}

TEST_CASE("balanced: a table read by rows counts less than a dense one of its size") {
  // Two tables and two dense variables of one size: each server gets one of each kind.
  const auto ps =
      PsOfShards(Make({Variable("t0", {100000, 16}, true), Variable("t1", {100000, 16}, true),
                       Variable("d0", {100000, 16}), Variable("d1", {100000, 16})},
                      1, "balanced", {1, 1}));
  CHECK(ps[0] != ps[1]);
  CHECK(ps[2] != ps[3]);
}

TEST_CASE("tablets: one per core where there is enough, each of one server, numbered through") {
  std::vector<v1::VariableSpec> variables;
  for (int i = 0; i < 12; ++i) variables.push_back(Variable("v" + std::to_string(i), {1 << 18}));
  const v1::Layout layout = Make(variables, 1, "balanced", {4, 2});
  REQUIRE(layout.tablets_size() == 6);
  std::map<uint32_t, int> per_ps;
  for (int t = 0; t < layout.tablets_size(); ++t) {
    CHECK(layout.tablets(t).tablet() == static_cast<uint32_t>(t));
    ++per_ps[layout.tablets(t).ps()];
  }
  CHECK(per_ps == std::map<uint32_t, int>{{0, 4}, {1, 2}});
  std::set<uint32_t> used;
  for (int s = 0; s < layout.shards_size(); ++s) {
    CHECK(layout.shards(s).shard() == static_cast<uint32_t>(s));
    used.insert(layout.shards(s).tablet());
  }
  CHECK(used.size() == 6);
}

TEST_CASE("a small model is one tablet per server; a server without shards has none") {
  CHECK(Make(kRecommender, 2, "balanced", {8, 8}).tablets_size() == 2);
  CHECK(Make({Variable("v", {3})}, 1, "balanced", {8, 8, 8}).tablets_size() == 1);
}

TEST_CASE("the same input gives the same layout") {
  const auto once = Make(kRecommender, 2, "balanced", {2, 2}).SerializeAsString();
  CHECK(Make(kRecommender, 2, "balanced", {2, 2}).SerializeAsString() == once);
}

TEST_CASE("bad input is named") {
  PlacementOptions options;
  const std::vector<v1::VariableSpec> one = {Variable("w", {2})};
  CHECK(!MakeLayout(one, v1::PartitionerSpec(), {}, options).ok());
  options.cores = {1};
  options.strategy = "random";
  auto unknown = MakeLayout(one, v1::PartitionerSpec(), {}, options);
  CHECK_THAT(std::string(unknown.status().message()),
             Catch::Contains("strategy.placement: 'random'"));
  options.strategy = "";
  const std::vector<v1::VariableSpec> huge = {
      Variable("big", {int64_t{1} << 40, int64_t{1} << 40})};
  auto large = MakeLayout(huge, v1::PartitionerSpec(), {}, options);
  CHECK_THAT(std::string(large.status().message()), Catch::Contains("'big'"));
}

TEST_CASE("the shard plan says variable, shard, rows, bytes and server") {
  const std::string text = ShardPlanText(Make(kRecommender, 2, "round_robin", {1, 1}));
  CHECK_THAT(text, Catch::Contains("embedding/embeddings  1/2    [0, 4)    320 B  ps:0  0\n"));
  CHECK_THAT(text, Catch::Contains("embedding/embeddings  2/2    [4, 8)    320 B  ps:1  1\n"));
  CHECK_THAT(text, Catch::Contains("ps:1 holds 360 B in 1 tablet\n"));
  CHECK(FormatBytes(3 << 20) == "3.0 MiB");
}

}  // namespace
}  // namespace cohort
