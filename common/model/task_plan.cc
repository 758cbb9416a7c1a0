#include "common/model/task_plan.h"

#include "common/base/exit_code.h"
#include "common/base/status.h"

namespace cohort {

ClusterSpec TaskPlan::LocalCluster(std::span<const int> ports) const {
  ClusterSpec cluster;
  auto port = ports.begin();
  for (int i = 0; i < servers(); ++i) cluster.Set({Role::kPs, i}, {"127.0.0.1", *port++});
  for (int i = 0; i < workers; ++i) cluster.Set({Role::kWorker, i}, {"127.0.0.1", *port++});
  return cluster;
}

absl::StatusOr<TaskPlan> PlanTasks(const StrategyClass& strategy, const DeviceOptions& devices,
                                   const TaskCounts& counts) {
  TaskPlan plan{.workers = counts.workers, .owners = counts.servers, .calls = strategy.calls};
  if (strategy.local() || !devices.devices.empty()) {
    COHORT_ASSIGN_OR_RETURN(plan.devices, ParseReplicaDevices(devices));
  }
  if (strategy.one_replica && plan.devices.size() > 1) {
    if (!devices.devices.empty()) {
      return UsageError(
          "--devices: strategy {} has one device, not {}: name one, or choose a "
          "strategy with several replicas (docs/strategies.md)",
          strategy.name, plan.devices.size());
    }
    plan.devices.resize(1);
  }
  if (strategy.local()) {
    plan.workers = static_cast<int>(plan.devices.size());
    plan.owners = 1;
  }
  if (strategy.replicas_own) plan.owners = plan.workers;
  return plan;
}

}  // namespace cohort
