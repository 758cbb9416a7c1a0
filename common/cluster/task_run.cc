#include "common/cluster/task_run.h"

#include <unistd.h>

#include "common/base/exit_code.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/os/service_notifier.h"
#include "common/os/signals.h"
#include "common/os/stall_watch.h"
#include "common/os/thread_stacks.h"

namespace cohort {

absl::Status WaitForChief(WaitList* waiting, bool there, const std::string& chief_address,
                          const std::string& own_address, Logger* log) {
  if (there) {
    waiting->Arrived("chief");
    return absl::OkStatus();
  }
  waiting->Expect("chief", chief_address);
  if (const auto line = waiting->Tick()) log->Info("waiting", {{"for", *line}});
  const std::optional<Duration> waited = waiting->Expired();
  if (!waited.has_value()) return absl::OkStatus();
  return DeadlineExceeded(
      "no chief dialed {} in {:.0f} s; start the chief{} with this address in TF_CONFIG",
      own_address, ToSeconds(*waited),
      chief_address.empty() ? "" : fmt::format(" ({})", chief_address));
}

namespace {

// How long a task takes to stop beside its grace: its streams and threads end.
constexpr std::chrono::seconds kTimeToStop{20};

void Notify(ServiceNotifier* notifier, ServingTask* task) {
  if (notifier == nullptr) return;
  notifier->Ready();
  notifier->SetStatus(task->StatusLine());
  if (notifier->watch_due()) notifier->Watch(task->Turns());
}

// Looks for loops of the task that hang. Returns an error, with which the process must end at once,
// when one has made no turn for options.stall_timeout.
absl::Status CheckTurns(StallWatch* watch, ServingTask* task, Logger* log,
                        const RunTaskOptions& options) {
  if (options.stall_timeout == Duration::zero() || !watch->due()) return absl::OkStatus();
  watch->Look(task->Turns());
  const Duration still = watch->longest();
  const std::string why = 2 * still < options.stall_timeout
                              ? std::string()
                              : fmt::format("a thread of the {} has stood still for {:.0f} s",
                                            options.role, ToSeconds(still));
  task->SetHang(why);
  if (still < options.stall_timeout) return absl::OkStatus();
  log->Error("stacks", {{"why", why}, {"threads", "\n" + StacksOfOtherThreads()}});
  return DeadlineExceeded(
      "{} (--stall_timeout_s): a kernel of a device, or the read of a file, "
      "does not end. The log has the stacks of all threads",
      why);
}

// A task that cannot stop loses nothing: its closures go to other tasks.
int ShutDown(ServingTask* task, Logger* log, ServiceNotifier* notifier, int code,
             const absl::Status& why, std::chrono::milliseconds grace) {
  if (notifier != nullptr) notifier->Stopping(grace + kTimeToStop);
  const absl::Status stopped = task->Shutdown(why, grace);
  if (stopped.ok()) return code;
  log->Failure(LogLevel::kError, "stuck", stopped);
  log->Flush();
  _exit(code);
}

}  // namespace

int RunUntilEnd(ServingTask* task, SignalWaiter* signals, Logger* log,
                const RunTaskOptions& options) {
  const RealClock clock;
  std::optional<int> signal;
  absl::Status status;
  Notify(options.notifier, task);
  StallWatch watch(&clock);
  while (status.ok() && !(signal = signals->WaitFor(options.tick)).has_value()) {
    status = task->Tick();
    Notify(options.notifier, task);
    if (const absl::Status hangs = CheckTurns(&watch, task, log, options); !hangs.ok()) {
      log->Failure(LogLevel::kError, "ends", hangs);
      log->Flush();
      _exit(ExitWith(options.program, hangs));  // threads that hang cannot be joined
    }
  }
  if (!status.ok()) {
    log->Failure(LogLevel::kError, "ends", status);
    log->Flush();
    return ShutDown(task, log, options.notifier, ExitWith(options.program, status), status,
                    std::chrono::milliseconds(0));
  }
  if (*signal != 0) {
    log->Info("ends", {{"signal", *signal}});
    return ShutDown(task, log, options.notifier, ExitCodeOfSignal(*signal),
                    Unavailable("the {} received signal {}", options.role, *signal),
                    options.grace_after_signal);
  }
  const TaskEnd end = task->end().value_or(TaskEnd());
  if (const auto steps = task->steps()) {
    log->Info("ends",
              {{"job_finished", end.job_finished}, {"reason", end.reason}, {"steps", *steps}});
  } else {
    log->Info("ends", {{"job_finished", end.job_finished}, {"reason", end.reason}});
  }
  log->Flush();
  const int code = ExitWith(
      options.program,
      end.job_finished ? absl::OkStatus() : Unavailable("the chief ended the job: {}", end.reason));
  return ShutDown(task, log, options.notifier, code, absl::OkStatus(), options.grace_at_end);
}

}  // namespace cohort
