#ifndef COHORT_DEPLOY_LAUNCHER_LOCAL_CLUSTER_H_
#define COHORT_DEPLOY_LAUNCHER_LOCAL_CLUSTER_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "deploy/launcher/child.h"
#include "deploy/launcher/run_lock.h"

namespace cohort {

// What `cohort local` is told.
struct LocalOptions {
  int ps = 1;
  int workers = 1;
  bool evaluator = false;
  bool restart = false;
  bool fresh = false;
  std::string transport = "unix";  // how workers reach a ps: "unix" (shared memory too) or "tcp"
  std::string checkpoint_dir;      // "": <run_dir>/checkpoints
  std::string log_dir;             // metrics and TensorBoard files; "": <run_dir>/logs
  std::string run_dir;             // logs of the tasks; "": log_dir's, or a new one below /tmp
  std::string bin_dir;             // where the daemons are; "": beside the launcher
  std::vector<std::string> task_flags;  // "worker:1=--threads=2", "ps=--log_level=debug"
  double grace_s = 10;
  std::string job;  // path
};

// The directories of a run, once they are there.
struct RunDirectories {
  std::string tasks;  // <task>.log
  std::string checkpoints;
  std::string logs;
  std::unique_ptr<RunLock> lock;
};

// Makes what is not there. Errors: exit 73, also where another launcher runs there.
absl::StatusOr<RunDirectories> MakeRunDirectories(const LocalOptions& options);

// One spec per task, the chief last: each with its TF_CONFIG. Errors: InvalidArgument (exit 64) for
// a wrong --task_flag; NotFound (exit 71) where a daemon's binary is not in bin_dir.
absl::StatusOr<std::vector<ChildSpec>> MakeTasks(const LocalOptions& options,
                                                 const RunDirectories& directories,
                                                 const std::vector<int>& ports);

// The directory of this program.
std::string OwnDirectory();

// The whole of `cohort local`. Returns the exit code.
int RunLocal(const LocalOptions& options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_LOCAL_CLUSTER_H_
