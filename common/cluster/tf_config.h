#ifndef COHORT_COMMON_CLUSTER_TF_CONFIG_H_
#define COHORT_COMMON_CLUSTER_TF_CONFIG_H_

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <string_view>

#include "common/cluster/cluster_spec.h"

namespace cohort {

// The content of TF_CONFIG: the cluster, and which of its tasks this process is.
struct TfConfig {
  ClusterSpec cluster;
  std::optional<Task> task;  // none if "task" is missing
};

// Reads the value of TF_CONFIG by the rules of TensorFlow's TFConfigClusterResolver and of
// multi_worker_util.validate_cluster_spec:
//
//   {"cluster": {"worker": ["host1:2222", "host2:2222"], "ps": {"0": "host3:2222"},
//                "chief": [...]},
//    "task": {"type": "worker", "index": 0}}
//
// The tasks of a job are a list or a sparse dictionary by index. task.index is a number or a
// numeric string; 0 if it is missing. "master" means chief. Unknown keys (environment, rpc_layer)
// are accepted. There is at most one chief. A worker or ps needs an entry of its own; a chief or
// evaluator does not. An evaluator may have no cluster at all. The clusters of a TFJob with dynamic
// workers are refused, because no task sees the others in them.
//
// Errors: InvalidArgument (exit code 78) that names the field: `TF_CONFIG: cluster.worker[1]: ...`.
absl::StatusOr<TfConfig> ParseTfConfig(std::string_view json);

// The task that a daemon of `role` is: the named one, or index 0 of a chief or evaluator if "task"
// is missing. Errors: InvalidArgument (exit code 78) if TF_CONFIG names another role, with the
// program to start instead.
absl::StatusOr<Task> TaskOfRole(const TfConfig& config, Role role);

// The inverse: the value of TF_CONFIG for one task. Writes lists, and dictionaries if there are
// gaps.
std::string MakeTfConfig(const ClusterSpec& cluster, Task task);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_TF_CONFIG_H_
