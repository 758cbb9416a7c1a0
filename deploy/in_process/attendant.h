#ifndef COHORT_DEPLOY_IN_PROCESS_ATTENDANT_H_
#define COHORT_DEPLOY_IN_PROCESS_ATTENDANT_H_

#include <absl/status/statusor.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/flags.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/cluster/role_flags.h"
#include "common/plugin/load_plugins.h"
#include "deploy/in_process/in_process_task.h"

namespace cohort {

// The parts that tasks of one process share.

// Does on a thread what a main() does with its owner object: ticks it until it is done or stopped.
class Attendant {
 public:
  // `tick` returns the exit code once the task has ended.
  Attendant(ExitEvent* end, std::function<std::optional<int>()> tick);
  // Ends the thread without an exit code.
  ~Attendant();

 private:
  void Run(ExitEvent* end, const std::function<std::optional<int>()>& tick);

  Mutex mu_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

// Logs an error as ExitWith would, and returns the exit code.
int LogEnd(const RoleContext& context, const absl::Status& status);

// Reads the command line and TF_CONFIG of a task, and loads its plugins. `add` binds `flags`, as
// AddWorkerFlags does.
template <typename Flags>
absl::StatusOr<RoleContext> ReadTaskFlags(void (*add)(FlagSet*, Flags*), Flags* flags, Role role,
                                          const InProcessTaskOptions& options) {
  RoleFlags* const own = &flags->role;
  own->threads = options.threads;
  FlagSet set("in-process", "A task within this process.");
  add(&set, flags);
  const ParsedFlags parsed = set.Parse(options.arguments);
  if (!parsed.run) return InvalidArgument("{}", parsed.err);
  if (!own->crash_point.empty()) {
    return Unimplemented("--crash_point ends a process: the tasks must be processes of their own");
  }
  own->log_file = options.log_file;
  own->log_to_stderr = options.log_to_stderr;
  COHORT_ASSIGN_OR_RETURN(RoleContext context,
                          MakeRoleContext(*own, role, options.tf_config.c_str()));
  COHORT_RETURN_IF_ERROR(LoadPlugins(context.plugins, context.log.get()));
  return context;
}

}  // namespace cohort

#endif  // COHORT_DEPLOY_IN_PROCESS_ATTENDANT_H_
