#include "common/cluster/thread_share.h"

#include <algorithm>
#include <map>
#include <string>

namespace cohort {
namespace {

// All names of loopback are one host.
std::string HostOf(const Address& address) {
  return IsLoopback(address.host) ? "localhost" : address.host;
}

// The number of workers and ps on each host.
std::map<std::string, int> TasksByHost(const ClusterSpec& cluster) {
  std::map<std::string, int> tasks;
  for (const Role role : {Role::kWorker, Role::kPs}) {
    for (const auto& [index, address] : cluster.tasks(role)) ++tasks[HostOf(address)];
  }
  return tasks;
}

}  // namespace

int ThreadShare(const ClusterSpec& cluster, Task self, int cores) {
  const auto own = cluster.Find(self);
  if (!own.has_value()) return std::max(1, cores);
  const int tasks = TasksByHost(cluster)[HostOf(*own)];
  return std::max(1, cores / std::max(1, tasks));
}

bool HasOwnCore(const ClusterSpec& cluster, Task self, int threads, int cores) {
  const auto own = cluster.Find(self);
  for (const auto& [host, tasks] : TasksByHost(cluster)) {
    const bool here = own.has_value() && host == HostOf(*own);
    if (cores / tasks < (here ? threads : 1)) return false;
  }
  return true;
}

}  // namespace cohort
