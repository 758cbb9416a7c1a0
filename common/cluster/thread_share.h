#ifndef COHORT_COMMON_CLUSTER_THREAD_SHARE_H_
#define COHORT_COMMON_CLUSTER_THREAD_SHARE_H_

#include "common/cluster/cluster_spec.h"

namespace cohort {

// This task's share of the machine's cores, at least 1: the cores divided by the workers and ps on
// its host, itself included. Hosts are compared by name, and all names of loopback are one host. A
// chief and an evaluator do little while the others work, so they are not counted.
int ThreadShare(const ClusterSpec& cluster, Task self, int cores);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_THREAD_SHARE_H_
