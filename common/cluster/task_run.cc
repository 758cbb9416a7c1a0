#include "common/cluster/task_run.h"

#include "common/base/exit_code.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/base/status.h"

namespace cohort {

absl::Status WaitForChief(WaitList* waiting, bool there, const std::string& address, Logger* log) {
  if (there) {
    waiting->Arrived("chief");
    return absl::OkStatus();
  }
  waiting->Expect("chief", address);
  if (const auto line = waiting->Tick()) log->Info("waiting", {{"for", *line}});
  return waiting->CheckDeadline();
}

int RunUntilEnd(ServingTask* task, SignalWaiter* signals, Logger* log,
                const RunTaskOptions& options) {
  std::optional<int> signal;
  absl::Status status;
  while (status.ok() && !(signal = signals->WaitFor(options.tick)).has_value()) {
    status = task->Tick();
  }
  if (!status.ok()) {
    log->Failure(LogLevel::kError, "ends", status);
    task->Shutdown(status, std::chrono::milliseconds(0));
    return ExitWith(options.program, status);
  }
  if (*signal != 0) {
    log->Info("ends", {{"signal", *signal}});
    task->Shutdown(Unavailable("the {} was asked to end (signal {})", options.role, *signal),
                   options.grace_after_signal);
    return ExitCodeOfSignal(*signal);
  }
  const TaskEnd end = task->end().value_or(TaskEnd());
  if (const auto steps = task->steps()) {
    log->Info("ends",
              {{"job_finished", end.job_finished}, {"reason", end.reason}, {"steps", *steps}});
  } else {
    log->Info("ends", {{"job_finished", end.job_finished}, {"reason", end.reason}});
  }
  task->Shutdown(absl::OkStatus(), options.grace_at_end);
  if (end.job_finished) return static_cast<int>(ExitCode::kOk);
  return ExitWith(options.program, Unavailable("the chief ended the job: {}", end.reason));
}

}  // namespace cohort
