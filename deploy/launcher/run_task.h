#ifndef COHORT_DEPLOY_LAUNCHER_RUN_TASK_H_
#define COHORT_DEPLOY_LAUNCHER_RUN_TASK_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

namespace cohort {

class FlagSet;

// The flags of `cohort run`: those of all daemons. One command line fits every task of a cluster,
// and each task's daemon gets the flags that it knows.
class RunFlags {
 public:
  explicit RunFlags(FlagSet* flags);
  ~RunFlags();

  // Returns the command line of the daemon for the task that TF_CONFIG names; argv[0] lies in
  // `bin_dir`. If TF_CONFIG names no task and a job is given, the task is the chief. Errors: exit
  // 78 for TF_CONFIG, 64 if the chief has no job.
  absl::StatusOr<std::vector<std::string>> DaemonArguments(const char* tf_config,
                                                           const std::string& bin_dir) const;

 private:
  struct Values;
  FlagSet* const flags_;
  std::unique_ptr<Values> values_;
};

// Replaces this process by argv[0]. If that fails, prints the reason and returns the exit code.
int Exec(const std::vector<std::string>& argv);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_RUN_TASK_H_
