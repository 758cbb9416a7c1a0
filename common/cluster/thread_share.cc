#include "common/cluster/thread_share.h"

#include <algorithm>
#include <string>

namespace cohort {
namespace {

// All names of loopback are one host.
std::string HostOf(const Address& address) {
  return IsLoopback(address.host) ? "localhost" : address.host;
}

}  // namespace

int ThreadShare(const ClusterSpec& cluster, Task self, int cores) {
  const auto own = cluster.Find(self);
  if (!own.has_value()) return std::max(1, cores);
  int tasks = 0;
  for (const Role role : {Role::kWorker, Role::kPs}) {
    for (const auto& [index, address] : cluster.tasks(role)) {
      if (HostOf(address) == HostOf(*own)) ++tasks;
    }
  }
  return std::max(1, cores / std::max(1, tasks));
}

}  // namespace cohort
