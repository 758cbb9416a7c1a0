#include "common/cluster/replica_cluster.h"

#include <catch2/catch.hpp>

#include "common/cluster/tf_config.h"

namespace cohort {
namespace {

TEST_CASE("the chief of TF_CONFIG is the first replica, and every replica is an owner") {
  const auto config = ParseTfConfig(
      R"({"cluster": {"chief": ["c:1"], "worker": {"0": "a:1", "3": "b:1"}, "evaluator": ["e:1"]},
          "task": {"type": "worker", "index": 3}})");
  REQUIRE(config.ok());
  const ClusterSpec replicas = ReplicasOf(config->cluster);
  CHECK(replicas.AllTasks().size() == 3);
  CHECK(replicas.Find({Role::kWorker, 0})->ToString() == "c:1");
  CHECK(replicas.Find({Role::kWorker, 2})->ToString() == "b:1");
  CHECK(ReplicaOf(config->cluster, *config->task) == 2);
  CHECK(ReplicaOf(config->cluster, {Role::kChief, 0}) == 0);
  CHECK_FALSE(ReplicaOf(config->cluster, {Role::kEvaluator, 0}).has_value());
  const ClusterSpec owners = WithOwners(replicas);
  CHECK(owners.count(Role::kPs) == 3);
  CHECK(owners.Find({Role::kPs, 1})->ToString() == "a:1");
}

TEST_CASE("without a chief worker 0 is the first replica") {
  const auto config = ParseTfConfig(
      R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}})");
  REQUIRE(config.ok());
  CHECK(ReplicaOf(config->cluster, *config->task) == 0);
  CHECK_FALSE(ReplicaOf(config->cluster, {Role::kChief, 0}).has_value());
}

}  // namespace
}  // namespace cohort
