#ifndef COHORT_CHIEF_CHIEF_H_
#define COHORT_CHIEF_CHIEF_H_

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "chief/job_runner.h"
#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/report/progress.h"

namespace cohort {

class AdminServer;
class SignalWaiter;

// The chief's process: a job runner on a thread of its own, and the admin port.
class Chief {
 public:
  struct Options {
    JobRunnerOptions job;       // clock and progress are the chief's own
    std::string admin_address;  // "" = none
    bool allow_insecure = false;
    ProgressLine::Options progress;
    ProgressLine::Output progress_output;
    std::function<void()> on_done;  // the job has ended, well or not; called once
  };

  // Errors: those of the admin port.
  static absl::StatusOr<std::unique_ptr<Chief>> Start(Options options);
  // Interrupts the job.
  ~Chief();

  // Ends the job early, with what is finished durable. Wait says how it ended.
  void Interrupt();
  // Waits for the job's end. Errors: why it failed; Cancelled where it was interrupted.
  absl::StatusOr<JobReport> Wait();
  // Interrupts the job and waits for its end. Error: DeadlineExceeded where it does not come within
  // `limit`; the destructor would wait on.
  absl::Status Stop(Duration limit);
  int admin_port() const;  // 0: none

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

  Mutex mu_;
  CondVar changed_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  absl::StatusOr<JobReport> outcome_ ABSL_GUARDED_BY(mu_);
};

// Waits for the job's end, or a signal, which interrupts it. Returns the exit code: 0 when the job
// is done (`*report` says how then), 128 + signal. With a job that cannot be ended it ends the
// process, under the same code: for daemons only. Errors: why the job failed.
absl::StatusOr<int> RunUntilEnd(Chief* chief, SignalWaiter* signals, Logger* log,
                                std::string* report);

}  // namespace cohort

#endif  // COHORT_CHIEF_CHIEF_H_
