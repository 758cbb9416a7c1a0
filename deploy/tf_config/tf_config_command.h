#ifndef COHORT_DEPLOY_TF_CONFIG_TF_CONFIG_COMMAND_H_
#define COHORT_DEPLOY_TF_CONFIG_TF_CONFIG_COMMAND_H_

#include <absl/status/statusor.h>

#include <string>

#include "deploy/tf_config/cluster_sources.h"

namespace cohort {

class FlagSet;

// The command line of `cohort tf-config`.
struct TfConfigOptions {
  std::string first;   // CLUSTER.yaml, or DIR with --from_slurm
  std::string second;  // DIR, after CLUSTER.yaml
  std::string task;    // "worker:1": print the TF_CONFIG of this task
  bool from_slurm = false;
  LayoutOptions layout;
};

void AddTfConfigFlags(FlagSet* flags, TfConfigOptions* options);

// Writes one file per task, "ps-0.env", to a directory, and returns the list of files; or returns
// the TF_CONFIG of one task, for stdout. A file has one line, `TF_CONFIG={...}` without quotes:
// systemd's EnvironmentFile= and `docker run --env-file` read it alike. Errors: exit code 64 for
// the command line, 65 or 66 for an input file, 73 if a file cannot be created, 78 for the
// environment.
absl::StatusOr<std::string> MakeTfConfigs(const TfConfigOptions& options,
                                          const Environment& environment);

}  // namespace cohort

#endif  // COHORT_DEPLOY_TF_CONFIG_TF_CONFIG_COMMAND_H_
