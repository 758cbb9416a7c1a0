#ifndef COHORT_DEPLOY_TF_CONFIG_CLUSTER_SOURCES_H_
#define COHORT_DEPLOY_TF_CONFIG_CLUSTER_SOURCES_H_

#include <absl/status/statusor.h>

#include <functional>
#include <optional>
#include <string>

#include "common/cluster/cluster_spec.h"
#include "deploy/tf_config/task_layout.h"

namespace cohort {

// A cluster, and which of its tasks this process is, if the source tells.
struct FoundCluster {
  ClusterSpec cluster;
  std::optional<Task> own;
};

// Which tasks a Slurm step has, and where.
struct LayoutOptions {
  RoleCounts counts;
  int port = 2222;           // the first task on a host has it; the default of TensorFlow
  std::string distribution;  // "": that of the step
};

// Looks up a variable of the environment; nullptr if it is not set.
using Environment = std::function<const char*(const char* name)>;

// The cluster of a Slurm job or step, from the variables that Slurm sets for its tasks:
// SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE (of a job: SLURM_JOB_NODELIST,
// SLURM_TASKS_PER_NODE), SLURM_DISTRIBUTION (default: block), SLURM_PROCID, SLURM_NODEID. Every
// task of the step has a role. Errors: InvalidArgument (exit code 78) that names the variable, or
// 64 for flags.
absl::StatusOr<FoundCluster> ClusterOfSlurm(const LayoutOptions& options,
                                            const Environment& environment);

}  // namespace cohort

#endif  // COHORT_DEPLOY_TF_CONFIG_CLUSTER_SOURCES_H_
