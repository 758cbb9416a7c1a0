#ifndef COHORT_DEPLOY_TF_CONFIG_TASK_LAYOUT_H_
#define COHORT_DEPLOY_TF_CONFIG_TASK_LAYOUT_H_

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/cluster/cluster_spec.h"
#include "deploy/tf_config/host_list.h"

namespace cohort {

// How many tasks of each role a cluster has. There is always one chief.
struct RoleCounts {
  int ps = 1;
  int workers = -1;  // -1: all tasks that are left
  bool evaluator = false;

  int total() const { return 1 + ps + workers + (evaluator ? 1 : 0); }
};

// Which host the task of a rank is on, as in srun's --distribution: `block` fills one host after
// another, `cyclic` gives each host a task in turn.
enum class Distribution { kBlock, kCyclic };
absl::StatusOr<Distribution> ParseDistribution(std::string_view name);

// Completes `counts.workers` for `tasks` tasks, and checks that they are enough. Errors:
// InvalidArgument (exit code 64) that names the flag.
absl::Status CompleteCounts(int tasks, RoleCounts* counts);

// The task of a rank: the chief is 0, then come the servers, the workers and the evaluator. `rank`
// is below counts.total().
Task TaskOfRank(const RoleCounts& counts, int rank);

// The hosts of ranks 0, 1, ...: as many ranks as there are slots.
std::vector<std::string> HostsOfRanks(const std::vector<HostSlots>& hosts,
                                      Distribution distribution);

// The cluster of the first counts.total() ranks. Each task has a port of its own on its host, from
// `port` on. Errors: InvalidArgument (exit code 64) if a port is above 65535.
absl::StatusOr<ClusterSpec> MakeCluster(const std::vector<std::string>& hosts_of_ranks,
                                        const RoleCounts& counts, int port);

}  // namespace cohort

#endif  // COHORT_DEPLOY_TF_CONFIG_TASK_LAYOUT_H_
