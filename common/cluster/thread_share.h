#ifndef COHORT_COMMON_CLUSTER_THREAD_SHARE_H_
#define COHORT_COMMON_CLUSTER_THREAD_SHARE_H_

#include "common/cluster/cluster_spec.h"

namespace cohort {

// This task's share of the machine's cores, at least 1: the cores divided by the workers and ps on
// its host, itself included. Hosts are compared by name, and all names of loopback are one host. A
// chief and an evaluator do little while the others work, so they are not counted.
int ThreadShare(const ClusterSpec& cluster, Task self, int cores);

// True if no worker or ps shares a core with another: this host has at least `threads` of its
// `cores` for each of them, and every other host, assumed to have as many cores, has at least one
// for each.
bool HasOwnCore(const ClusterSpec& cluster, Task self, int threads, int cores);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_THREAD_SHARE_H_
