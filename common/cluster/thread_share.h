#ifndef COHORT_COMMON_CLUSTER_THREAD_SHARE_H_
#define COHORT_COMMON_CLUSTER_THREAD_SHARE_H_

#include "common/cluster/cluster_spec.h"

namespace cohort {

// This task's share of the machine's cores: cores divided by the workers and ps whose host is its
// own (by name; all loopback names are one host), itself included; at least 1. A chief and an
// evaluator do little while the others work, and take none from them.
int ThreadShare(const ClusterSpec& cluster, Task self, int cores);

// Whether no worker or ps shares a core with another: of its `cores` this host has at least
// `threads` for each of them, and every other host, taken to have as many cores, at least one for
// each.
bool HasOwnCore(const ClusterSpec& cluster, Task self, int threads, int cores);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_THREAD_SHARE_H_
