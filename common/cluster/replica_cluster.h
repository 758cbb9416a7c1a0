#ifndef COHORT_COMMON_CLUSTER_REPLICA_CLUSTER_H_
#define COHORT_COMMON_CLUSTER_REPLICA_CLUSTER_H_

#include <optional>

#include "common/cluster/cluster_spec.h"

namespace cohort {

// Replicas, each of which trains and owns a part of the variables. TF_CONFIG names them as workers;
// a chief with an address is a replica, too, and the first.

// The replicas as workers 0, 1, ... without gaps, and nothing else.
ClusterSpec ReplicasOf(const ClusterSpec& cluster);
// The number of the replica that this task is; nullopt if it is none.
std::optional<int> ReplicaOf(const ClusterSpec& cluster, Task task);
// Adds the owners: for each replica a parameter server of the same index and address.
ClusterSpec WithOwners(ClusterSpec replicas);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_REPLICA_CLUSTER_H_
