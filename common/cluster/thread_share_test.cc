#include "common/cluster/thread_share.h"

#include <catch2/catch.hpp>

namespace cohort {
namespace {

TEST_CASE("the tasks of one host share its cores") {
  ClusterSpec cluster;
  cluster.Set({Role::kWorker, 0}, {"a", 1});
  cluster.Set({Role::kWorker, 1}, {"a", 2});
  cluster.Set({Role::kWorker, 2}, {"b", 1});
  cluster.Set({Role::kPs, 0}, {"a", 3});
  cluster.Set({Role::kChief, 0}, {"b", 3});
  REQUIRE(ThreadShare(cluster, {Role::kWorker, 0}, 16) == 5);
  REQUIRE(ThreadShare(cluster, {Role::kPs, 0}, 2) == 1);
  REQUIRE(ThreadShare(cluster, {Role::kWorker, 2}, 16) == 16);
  REQUIRE(ThreadShare(cluster, {Role::kChief, 0}, 16) == 16);
  REQUIRE(ThreadShare(cluster, {Role::kEvaluator, 0}, 0) == 1);
}

TEST_CASE("all names of loopback are one host") {
  ClusterSpec cluster;
  cluster.Set({Role::kWorker, 0}, {"localhost", 1});
  cluster.Set({Role::kPs, 0}, {"127.0.0.1", 2});
  cluster.Set({Role::kPs, 1}, {"::1", 3});
  REQUIRE(ThreadShare(cluster, {Role::kPs, 1}, 9) == 3);
}

}  // namespace
}  // namespace cohort
