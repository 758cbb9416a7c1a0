#ifndef COHORT_DEPLOY_TF_CONFIG_HOST_LIST_H_
#define COHORT_DEPLOY_TF_CONFIG_HOST_LIST_H_

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

namespace cohort {

// A host and how many tasks it takes.
struct HostSlots {
  std::string host;
  int slots = 1;

  bool operator==(const HostSlots&) const = default;
};

// The most hosts, and the most tasks, of one cluster.
inline constexpr int kMostHosts = 100'000;

// Expands a list of hosts in Slurm's form: "node[01-03,7],gpu1" names node01, node02, node03, node7
// and gpu1. A number has at least as many digits as the first number of its range. A name may have
// several brackets. Errors: InvalidArgument, which quotes the wrong part.
absl::StatusOr<std::vector<std::string>> ExpandHostList(std::string_view list);

// Reads SLURM_TASKS_PER_NODE: "2(x3),1" means 2, 2, 2, 1. Errors: InvalidArgument.
absl::StatusOr<std::vector<int>> ExpandTasksPerNode(std::string_view text);

}  // namespace cohort

#endif  // COHORT_DEPLOY_TF_CONFIG_HOST_LIST_H_
