#include "common/cluster/replica_cluster.h"

#include <vector>

namespace cohort {
namespace {

std::vector<Task> TasksOf(const ClusterSpec& cluster) {
  std::vector<Task> tasks;
  for (const Role role : {Role::kChief, Role::kWorker}) {
    for (const auto& [index, address] : cluster.tasks(role)) tasks.push_back({role, index});
  }
  return tasks;
}

}  // namespace

ClusterSpec ReplicasOf(const ClusterSpec& cluster) {
  ClusterSpec replicas;
  int next = 0;
  for (const Task task : TasksOf(cluster)) {
    replicas.Set({Role::kWorker, next++}, *cluster.Find(task));
  }
  return replicas;
}

std::optional<int> ReplicaOf(const ClusterSpec& cluster, Task task) {
  const std::vector<Task> tasks = TasksOf(cluster);
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i] == task) return static_cast<int>(i);
  }
  return std::nullopt;
}

ClusterSpec WithOwners(ClusterSpec replicas) {
  const std::map<int, Address> workers = replicas.tasks(Role::kWorker);
  for (const auto& [index, address] : workers) replicas.Set({Role::kPs, index}, address);
  return replicas;
}

}  // namespace cohort
