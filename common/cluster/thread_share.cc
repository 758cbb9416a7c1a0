#include "common/cluster/thread_share.h"

#include <algorithm>

namespace cohort {
namespace {

// Workers and ps on the host of `self`; at least 1.
int TasksOfHost(const ClusterSpec& cluster, Task self) {
  const auto own = cluster.Find(self);
  if (!own.has_value()) return 1;
  int tasks = 0;
  for (const Role role : {Role::kWorker, Role::kPs}) {
    for (const auto& [index, address] : cluster.tasks(role)) {
      const bool both_loopback = IsLoopback(own->host) && IsLoopback(address.host);
      if (both_loopback || address.host == own->host) ++tasks;
    }
  }
  return std::max(1, tasks);
}

}  // namespace

int ThreadShare(const ClusterSpec& cluster, Task self, int cores) {
  return std::max(1, cores / TasksOfHost(cluster, self));
}

bool HasOwnCore(const ClusterSpec& cluster, Task self, int cores) {
  return cores >= TasksOfHost(cluster, self);
}

}  // namespace cohort
