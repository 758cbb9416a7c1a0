#include "common/cluster/thread_share.h"

#include <algorithm>

namespace cohort {
namespace {

bool SameHost(const Address& a, const Address& b) {
  return a.host == b.host || (IsLoopback(a.host) && IsLoopback(b.host));
}

// Workers and ps on the host of `of`; at least 1.
int TasksOfHost(const ClusterSpec& cluster, const Address& of) {
  int tasks = 0;
  for (const Role role : {Role::kWorker, Role::kPs}) {
    for (const auto& [index, address] : cluster.tasks(role)) tasks += SameHost(of, address) ? 1 : 0;
  }
  return std::max(1, tasks);
}

}  // namespace

int ThreadShare(const ClusterSpec& cluster, Task self, int cores) {
  const auto own = cluster.Find(self);
  return std::max(1, own.has_value() ? cores / TasksOfHost(cluster, *own) : cores);
}

bool HasOwnCore(const ClusterSpec& cluster, Task self, int threads, int cores) {
  const auto own = cluster.Find(self);
  if (own.has_value() && cores / TasksOfHost(cluster, *own) < threads) return false;
  for (const Role role : {Role::kWorker, Role::kPs}) {
    for (const auto& [index, address] : cluster.tasks(role)) {
      if (TasksOfHost(cluster, address) > cores) return false;
    }
  }
  return true;
}

}  // namespace cohort
