#ifndef COHORT_COMMON_CLUSTER_TF_CONFIG_H_
#define COHORT_COMMON_CLUSTER_TF_CONFIG_H_

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <string_view>

#include "common/cluster/cluster_spec.h"

namespace cohort {

// What TF_CONFIG says: the cluster, and which task of it this process is.
struct TfConfig {
  ClusterSpec cluster;
  std::optional<Task> task;  // none where "task" is absent
};

// Reads the value of TF_CONFIG, by the rules of TensorFlow's TFConfigClusterResolver and of
// multi_worker_util.validate_cluster_spec:
//
//   {"cluster": {"worker": ["host1:2222", "host2:2222"], "ps": {"0": "host3:2222"}, "chief":
//   [...]},
//    "task": {"type": "worker", "index": 0}}
//
// A job's tasks are a list or a sparse dictionary by index; task.index is a number or a numeric
// string, 0 where it is absent; "master" means chief; keys that it does not know (environment,
// rpc_layer) are accepted. One chief at most; a chief or evaluator needs no entry of its own, a
// worker or ps does. An evaluator may have no cluster at all. Errors: InvalidArgument (exit 78)
// that names the field, as in `TF_CONFIG: cluster.worker[1]: ...`.
absl::StatusOr<TfConfig> ParseTfConfig(std::string_view json);

// The task that a daemon of `role` is: the one named, or index 0 of a chief or evaluator where
// "task" is absent. Errors: InvalidArgument (exit 78) where TF_CONFIG names another role, with the
// program that it needs.
absl::StatusOr<Task> TaskOfRole(const TfConfig& config, Role role);

// The inverse: the value of TF_CONFIG for one task (lists; dictionaries where there are gaps).
std::string MakeTfConfig(const ClusterSpec& cluster, Task task);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_TF_CONFIG_H_
