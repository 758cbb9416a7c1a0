#ifndef COHORT_COMMON_CLUSTER_FREE_PORTS_H_
#define COHORT_COMMON_CLUSTER_FREE_PORTS_H_

#include <absl/status/statusor.h>

#include <vector>

namespace cohort {

// Returns `count` TCP ports that are free on loopback now. They lie below the range that the system
// uses for outgoing connections, so no such connection takes one before its task listens or while
// the task restarts. Other programs may take them. Errors: ResourceExhausted.
absl::StatusOr<std::vector<int>> ChooseFreePorts(int count);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_FREE_PORTS_H_
