#ifndef COHORT_CHIEF_CHIEF_H_
#define COHORT_CHIEF_CHIEF_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "chief/job/job_runner.h"
#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/report/progress.h"

namespace cohort {

class AdminServer;
class ServiceNotifier;
class SignalWaiter;

// The chief's process: a job runner on its own thread, and the admin port.
class Chief {
 public:
  struct Options {
    JobRunnerOptions job;       // the chief sets clock and progress
    std::string admin_address;  // "" = none
    ProgressLine::Options progress;
    ProgressLine::Output progress_output;
    std::function<void()> on_outcome;  // outcome() is known, before the end; may be empty
    std::function<void()> on_done;     // the chief has ended, with or without an error; called once
  };

  // Errors: those of the admin port.
  static absl::StatusOr<std::unique_ptr<Chief>> Start(Options options);
  // Interrupts the job, and waits until the chief has ended.
  ~Chief();

  // Ends the job early and makes finished closures durable. Wait returns the result.
  void Interrupt();
  // Waits until the chief has ended. Errors: why the job failed; Cancelled after Interrupt.
  absl::StatusOr<JobReport> Wait();
  // The value that Wait will return. It may be known long before the end, because storage that does
  // not answer delays the end.
  std::optional<absl::StatusOr<JobReport>> outcome() const;
  // What the job runner is doing.
  std::string activity() const { return runner_->activity(); }
  int admin_port() const;  // -1: none
  // Reports to the service manager what the job does, that it is ready (all variables are
  // initialized or restored), and that the thread of the protocol makes turns. Call it a few times
  // a second.
  void Notify(ServiceNotifier* notifier);

 private:
  explicit Chief(Options options);
  absl::Status StartAdmin();
  void AddMetrics();
  std::string StatusText() const;

  Options options_;
  RealClock clock_;
  MetricsRegistry registry_;
  ProgressLine progress_;
  std::unique_ptr<JobRunner> runner_;
  std::unique_ptr<AdminServer> admin_;
  std::thread thread_;
  std::string notified_;  // what the last Notify without a coordinator reported

  mutable Mutex mu_;
  CondVar changed_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::StatusOr<JobReport>> outcome_ ABSL_GUARDED_BY(mu_);
};

// How long a chief may take to end. After that it logs an error, and the process ends at most
// `moment` later, even if the log does not accept the error.
struct EndLimits {
  // After a signal. `stop` plus `moment` must be shorter than the launcher's time between SIGTERM
  // and SIGKILL.
  Duration stop = std::chrono::seconds(8);
  // Without a signal: after a failed job, and after a finished job. The deletion of old checkpoints
  // may take long.
  Duration failed = std::chrono::seconds(15);
  Duration finished = std::chrono::seconds(60);
  Duration moment = std::chrono::seconds(1);
};

// Waits for the end of the chief or for a signal; a signal interrupts the job. Prints the outcome
// as soon as it is known. Returns the exit code: the outcome's, or 128 + signal if the signal came
// first; for a finished job it is always 0. If storage or a log hangs and the chief does not end
// within the limits, this function ends the process with the same code, so only daemons may use it.
// `on_outcome` must call signals->Wake(), and `on_done` signals->NotifyDone(). `notifier` may be
// null.
int RunUntilEnd(Chief* chief, SignalWaiter* signals, Logger* log, const EndLimits& limits = {},
                ServiceNotifier* notifier = nullptr);

}  // namespace cohort

#endif  // COHORT_CHIEF_CHIEF_H_
