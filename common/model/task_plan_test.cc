#include "common/model/task_plan.h"

#include <catch2/catch.hpp>

#include "common/base/exit_code.h"

namespace cohort {
namespace {

TEST_CASE("every strategy has its workers, owners and calls") {
  const std::vector<std::string> two = {"cpu:0", "cpu:1"};
  const TaskPlan plans[] = {
      {.workers = 3, .owners = 2, .calls = OwnerCalls::kSockets, .devices = two},
      {.workers = 1, .owners = 1, .calls = OwnerCalls::kDirect, .devices = {"cpu:0"}},
      {.workers = 2, .owners = 1, .calls = OwnerCalls::kDirect, .devices = two},
      {.workers = 2, .owners = 2, .calls = OwnerCalls::kDirect, .devices = two},
      {.workers = 3, .owners = 3, .calls = OwnerCalls::kReplicas, .devices = two}};
  REQUIRE(Strategies().size() == std::size(plans));
  for (size_t i = 0; i < std::size(plans); ++i) {
    const StrategyClass& strategy = Strategies()[i];
    INFO(strategy.name);
    const DeviceOptions devices = {.devices = strategy.one_replica ? "cpu:0" : "cpu:0,cpu:1"};
    const auto plan = PlanTasks(strategy, devices, {.workers = 3, .servers = 2});
    REQUIRE(plan.ok());
    CHECK(plan->workers == plans[i].workers);
    CHECK(plan->owners == plans[i].owners);
    CHECK(plan->calls == plans[i].calls);
    CHECK(plan->devices == plans[i].devices);
  }
}

TEST_CASE("a strategy of one replica refuses several devices") {
  const auto plan = PlanTasks(DefaultStrategy(OwnerCalls::kDirect), {.devices = "cpu:0,cpu:1"}, {});
  CHECK(ExitCodeOf(plan.status()) == ExitCode::kUsage);
  CHECK_THAT(std::string(plan.status().message()),
             Catch::Contains("--devices: strategy one_device has one device, not 2"));
}

TEST_CASE("a plan has an address for each worker and each server") {
  TaskPlan plan = {.workers = 2, .owners = 1};
  const ClusterSpec cluster = plan.LocalCluster(std::vector<int>{7, 8, 9});
  CHECK(cluster.Find({Role::kPs, 0}) == Address{"127.0.0.1", 7});
  CHECK(cluster.Find({Role::kWorker, 1}) == Address{"127.0.0.1", 9});
  plan.calls = OwnerCalls::kReplicas;
  CHECK(plan.servers() == 0);
  CHECK(plan.LocalCluster(std::vector<int>{7, 8}).count(Role::kPs) == 0);
}

}  // namespace
}  // namespace cohort
