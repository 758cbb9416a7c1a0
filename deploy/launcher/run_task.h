#ifndef COHORT_DEPLOY_LAUNCHER_RUN_TASK_H_
#define COHORT_DEPLOY_LAUNCHER_RUN_TASK_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "common/cluster/tf_config.h"
#include "deploy/launcher/task_process.h"

namespace cohort {

class FlagSet;

// The flags of `cohort run`: those of all daemons. One command line fits every task of a cluster,
// and each task's daemon gets the flags that it knows.
class RunFlags {
 public:
  explicit RunFlags(FlagSet* flags);
  ~RunFlags();

  // Returns the daemons of the task that TF_CONFIG names; their programs lie in `bin_dir`. There is
  // one, but the first replica has the chief of the job, too. If TF_CONFIG
  // names no task and a job is given, the task is the chief. Errors: exit 78 for TF_CONFIG, 64 if
  // the task needs a job and has none.
  absl::StatusOr<std::vector<TaskCommand>> Commands(const char* tf_config,
                                                    const std::string& bin_dir) const;
  // True if the tasks are replicas only because TF_CONFIG has no parameter servers.
  bool GuessesReplicas(const char* tf_config) const;
  const std::string& job() const;
  // The value of --strategy.
  std::string* strategy();
  const std::vector<std::string>& plugins() const;

 private:
  struct Values;

  // True if the tasks of this cluster are replicas: --strategy names them, or there are no servers.
  bool AreReplicas(const TfConfig& config) const;
  absl::StatusOr<std::vector<TaskCommand>> ReplicaCommands(const TfConfig& config,
                                                           const std::string& bin_dir) const;
  // The command of one daemon. `who`: the bit of its kind in the table of flags.
  TaskCommand Command(const ClusterSpec& cluster, Task task, std::string_view program, unsigned who,
                      const std::string& bin_dir) const;

  FlagSet* const flags_;
  std::unique_ptr<Values> values_;
};

// Replaces this process by argv[0]. Returns only if that fails, with the reason.
absl::Status Exec(const std::vector<std::string>& argv);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_RUN_TASK_H_
