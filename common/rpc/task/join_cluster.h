#ifndef COHORT_COMMON_RPC_TASK_JOIN_CLUSTER_H_
#define COHORT_COMMON_RPC_TASK_JOIN_CLUSTER_H_

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/cluster/cluster_spec.h"
#include "common/cluster/security.h"

namespace cohort {

struct JoinOptions {
  // "host:port" at which chiefs of the job accept tasks (--join_bind), separated by commas: they
  // are asked in turn.
  std::string chiefs;
  Role role = Role::kWorker;
  // Where the task will serve: "host:port"; "": a free port of the address by which this host
  // reaches the chief.
  std::string bind;
  std::shared_ptr<const Security> security = Security::LoopbackOnly();
  double wait_s = 300;  // how long a chief may not answer, or have no place; 0: forever
  // Waits, and returns false if the task has to end meanwhile.
  std::function<bool(Duration)> wait;
  std::function<void(const std::string&)> on_wait;  // for how long it waits, and why
};

// Asks the chief of a running job to take this task in (proto/chief.proto). Returns the TF_CONFIG
// of the task: from then on the chief dials it. Errors: InvalidArgument (exit 64: an address);
// Unavailable (exit 169: nobody has answered for wait_s); OutOfRange if the job is finished;
// Cancelled if it has to end; why the chief refuses the task (exit 78).
absl::StatusOr<std::string> JoinCluster(const JoinOptions& options);

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_TASK_JOIN_CLUSTER_H_
