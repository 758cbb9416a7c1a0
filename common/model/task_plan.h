#ifndef COHORT_COMMON_MODEL_TASK_PLAN_H_
#define COHORT_COMMON_MODEL_TASK_PLAN_H_

#include <absl/status/statusor.h>

#include <span>
#include <string>
#include <vector>

#include "common/cluster/cluster_spec.h"
#include "common/device/devices.h"
#include "common/model/strategies.h"

namespace cohort {

// The numbers of tasks that a user chooses for a strategy of several processes.
struct TaskCounts {
  int workers = 1;
  int servers = 1;  // ignored if replicas own the variables
};

// The tasks of a strategy.
//
//   strategy                workers          owners of the variables      calls
//   parameter_server        as chosen        parameter servers            kSockets
//   one_device              one              one                          kDirect
//   central_storage         one per device   one                          kDirect
//   mirrored                one per device   one per worker               kDirect
//   multi_worker_mirrored   as chosen        the workers, each a part     kReplicas
struct TaskPlan {
  int workers = 1;
  int owners = 1;
  OwnerCalls calls = OwnerCalls::kSockets;
  // The device of each worker. Empty: a worker takes those that it finds.
  std::vector<std::string> devices;

  bool are_replicas() const { return calls == OwnerCalls::kReplicas; }
  // The number of tasks with the role ps.
  int servers() const { return are_replicas() ? 0 : owners; }
  // The workers and servers at ports of this host. `ports` has at least as many.
  ClusterSpec LocalCluster(std::span<const int> ports) const;
};

// The tasks of a strategy on these devices. A strategy of one process ignores `counts`. Errors:
// those of ParseReplicaDevices; exit 64 if a strategy of one replica gets several devices.
absl::StatusOr<TaskPlan> PlanTasks(const StrategyClass& strategy, const DeviceOptions& devices,
                                   const TaskCounts& counts);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_TASK_PLAN_H_
