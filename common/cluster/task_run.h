#ifndef COHORT_COMMON_CLUSTER_TASK_RUN_H_
#define COHORT_COMMON_CLUSTER_TASK_RUN_H_

#include <absl/status/status.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/cluster/wait_list.h"

namespace cohort {

class Logger;
class ServiceNotifier;
class SignalWaiter;

// How the chief ended the job.
struct TaskEnd {
  bool job_finished = false;
  std::string reason;
};

// The status with which a worker closes its streams if it ends because of `why`, and has finished
// or given back its work. The code tells, which the RPC library never uses.
inline absl::Status EndedInOrder(const absl::Status& why) {
  return why.ok() ? why : absl::Status(absl::StatusCode::kAborted, why.message());
}
inline bool HasEndedInOrder(const absl::Status& closed) { return absl::IsAborted(closed); }

// A task that serves a chief, as seen by its process.
class ServingTask {
 public:
  virtual ~ServingTask() = default;
  // The TCP port that it serves.
  virtual int port() const = 0;
  // Called a few times a second. Errors: DeadlineExceeded if no chief arrives in time.
  virtual absl::Status Tick() = 0;
  virtual std::optional<TaskEnd> end() const = 0;
  // The number of steps that it has run; nullopt if the task runs no steps.
  virtual std::optional<uint64_t> steps() const { return std::nullopt; }
  // One line for a service manager: what the task does, or what it is waiting for.
  virtual std::string StatusLine() const { return ""; }
  // How many turns each loop of the task has made: a number per loop, which grows also while the
  // loop has no work. A loop that hangs keeps its number. Called by the thread that calls Tick.
  virtual std::vector<uint64_t> Turns() { return {}; }
  // Shows on /healthz why the task hangs; "": it does not. Called by the same thread.
  virtual void SetHang(const std::string&) {}
  // Lets running work finish for at most `grace`, closes all streams with `why` (OK: the job is
  // done) and stops. Idempotent. Error: DeadlineExceeded if a thread of the task does not end,
  // because a kernel or a file hangs. Its streams are closed then, but its destructor would block
  // forever.
  virtual absl::Status Shutdown(const absl::Status& why, std::chrono::milliseconds grace) = 0;
};

// Logs the wait for the chief while it is not `there`. `own_address`: the address of this task,
// which the chief should dial. Errors: DeadlineExceeded when the wait has expired.
absl::Status WaitForChief(WaitList* waiting, bool there, const std::string& chief_address,
                          const std::string& own_address, Logger* log);

struct RunTaskOptions {
  std::string program;  // "cohort-ps"
  std::string role;     // "parameter server"
  std::chrono::milliseconds tick{100};
  std::chrono::milliseconds grace_after_signal{0};
  std::chrono::milliseconds grace_at_end{0};
  // A loop without a turn for this time ends the process with 169 and the stacks of its threads in
  // the log. After half of the time /healthz fails. Zero: no limit.
  Duration stall_timeout{};
  ServiceNotifier* notifier = nullptr;  // hears that the task serves, and what it does; may be null
};

// Waits for the end of the job, a signal, or the deadline for a chief, and shuts the task down.
// Returns the exit code: 0 if the job finished, 169 if it failed or no chief arrived, 128 + signal.
// If the task cannot be shut down, it ends the process with the same code, so it is for daemons
// only.
int RunUntilEnd(ServingTask* task, SignalWaiter* signals, Logger* log,
                const RunTaskOptions& options);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_TASK_RUN_H_
