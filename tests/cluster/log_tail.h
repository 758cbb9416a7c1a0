#ifndef COHORT_TESTS_CLUSTER_LOG_TAIL_H_
#define COHORT_TESTS_CLUSTER_LOG_TAIL_H_

#include <string>
#include <vector>

#include "tests/cluster/mini_cluster.h"

namespace cohort {

// The last lines of a file; "" where there is none.
std::string TailOf(const std::string& file, int lines);

// The TF_CONFIG of a task in a cluster on loopback.
std::string TfConfigText(TaskRole role, int index, const std::vector<int>& worker_ports,
                         const std::vector<int>& ps_ports);

}  // namespace cohort

#endif  // COHORT_TESTS_CLUSTER_LOG_TAIL_H_
