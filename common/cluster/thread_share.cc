#include "common/cluster/thread_share.h"

#include <algorithm>

namespace cohort {

int ThreadShare(const ClusterSpec& cluster, Task self, int cores) {
  const auto own = cluster.Find(self);
  if (!own.has_value()) return std::max(1, cores);
  int tasks = 0;
  for (const Role role : {Role::kWorker, Role::kPs}) {
    for (const auto& [index, address] : cluster.tasks(role)) {
      const bool both_loopback = IsLoopback(own->host) && IsLoopback(address.host);
      if (both_loopback || address.host == own->host) ++tasks;
    }
  }
  return std::max(1, cores / std::max(1, tasks));
}

}  // namespace cohort
