#ifndef COHORT_COMMON_CLUSTER_TASK_RUN_H_
#define COHORT_COMMON_CLUSTER_TASK_RUN_H_

#include <absl/status/status.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/cluster/wait_list.h"

namespace cohort {

class Logger;
class SignalWaiter;

// How the chief ended the job of a task.
struct TaskEnd {
  bool job_finished = false;
  std::string reason;
};

// A task that works for a chief, as its process sees it.
class ServingTask {
 public:
  virtual ~ServingTask() = default;
  // Called a few times a second. Errors: DeadlineExceeded when no chief has come for too long.
  virtual absl::Status Tick() = 0;
  virtual std::optional<TaskEnd> end() const = 0;
  // That it has run; nullopt where it runs none.
  virtual std::optional<uint64_t> steps() const { return std::nullopt; }
  // Lets what is in hand be finished for at most `grace`, closes all streams with `why` (OK: the
  // job is done), stops. Idempotent. Error: DeadlineExceeded where a thread of the task does not
  // end (a kernel hangs, or a file); its streams are closed, and its destructor would wait for
  // ever.
  virtual absl::Status Shutdown(const absl::Status& why, std::chrono::milliseconds grace) = 0;
};

// Says that the chief is waited for while it is not `there`. Errors: those of CheckDeadline.
absl::Status WaitForChief(WaitList* waiting, bool there, const std::string& address, Logger* log);

struct RunTaskOptions {
  std::string program;  // "cohort-ps"
  std::string role;     // "parameter server"
  std::chrono::milliseconds tick{100};
  std::chrono::milliseconds grace_after_signal{0};
  std::chrono::milliseconds grace_at_end{0};
};

// Waits for the end of the job, a signal, or a chief that does not come, and shuts the task down.
// Returns the exit code: 0 when the job is finished, 69 when it failed or nobody came,
// 128 + signal. With a task that cannot be shut down it ends the process, under the same code: for
// daemons only.
int RunUntilEnd(ServingTask* task, SignalWaiter* signals, Logger* log,
                const RunTaskOptions& options);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_TASK_RUN_H_
