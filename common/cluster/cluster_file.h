#ifndef COHORT_COMMON_CLUSTER_CLUSTER_FILE_H_
#define COHORT_COMMON_CLUSTER_CLUSTER_FILE_H_

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "common/cluster/cluster_spec.h"

namespace cohort {

// The description of a cluster, from which its tasks' TF_CONFIG and certificates are made:
//
//   name: lab                      # letters, digits, ".", "_" and "-"
//   cluster:                       # as in TF_CONFIG
//     chief: [node1:4700]
//     ps: [node1:4711, node2:4711]
//     worker: ["[fd00::1]:4701", "node2:4701"]
//     evaluator: [node2:4790]
struct ClusterFile {
  std::string name;
  ClusterSpec cluster;
};

// Reads the text of such a file; `file_name` is for errors. The tasks of a role are a list or a
// dictionary by index. "master" means chief. There is at most one chief and one evaluator, and no
// address has two tasks. Errors: InvalidArgument (exit code 65) "FILE:LINE: cluster.ps[1]: ...".
absl::StatusOr<ClusterFile> ParseClusterFile(std::string_view yaml, std::string_view file_name);

// Reads the file. Errors: those of ParseClusterFile; NotFound (exit code 66) if it cannot be read.
absl::StatusOr<ClusterFile> ReadClusterFile(const std::string& path);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_CLUSTER_FILE_H_
