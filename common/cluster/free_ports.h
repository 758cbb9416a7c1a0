#ifndef COHORT_COMMON_CLUSTER_FREE_PORTS_H_
#define COHORT_COMMON_CLUSTER_FREE_PORTS_H_

#include <absl/status/statusor.h>

#include <vector>

namespace cohort {

// `count` TCP ports of loopback that are free now, below the range that the system hands out to
// outgoing connections, so that none of those takes one before its task listens, or while it is
// away. Others may. Errors: ResourceExhausted.
absl::StatusOr<std::vector<int>> ChooseFreePorts(int count);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_FREE_PORTS_H_
