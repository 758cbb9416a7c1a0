#ifndef COHORT_CHIEF_JOB_JOB_CONSOLE_H_
#define COHORT_CHIEF_JOB_JOB_CONSOLE_H_

#include <string>

#include "common/base/mutex.h"
#include "common/report/progress.h"

namespace cohort {

// The console and the current activity of a running job. Thread-safe: the coordinator reports its
// waits from its own thread, and the status page reads the activity from another.
class JobConsole {
 public:
  explicit JobConsole(ProgressLine* line) : line_(line) {}

  // Prints a line that the progress line does not overwrite.
  void Print(const std::string& text);
  // Prints what the coordinator is waiting for. When the outcome is known, the wait also becomes
  // the job's activity.
  void PrintWait(const std::string& what);
  // Shows the progress if the console needs an update; calls `make_progress` only in that case.
  template <typename MakeProgress>
  void ShowIfDue(const MakeProgress& make_progress) {
    MutexLock lock(&line_mu_);
    if (line_->due()) line_->Update(make_progress());
  }

  // "training", "waiting for the storage of ...".
  void SetActivity(std::string what);
  std::string activity() const;
  // The wait that was printed last, or "" if the activity has changed since.
  std::string waiting_for() const;
  // The speed of the training, as it was measured last.
  void SetStepsPerSecond(double rate);
  double steps_per_second() const;
  // Steps per second in the last half minute, with pauses: the time left follows from it. 0:
  // unknown.
  void SetPace(double rate);
  double pace() const;
  // The outcome is known, and the job is ending. Returns false if that was already known.
  bool BeginEnd();

 private:
  // Printing may block as long as the terminal or pipe does, so the activity has its own lock.
  Mutex line_mu_;
  ProgressLine* const line_ ABSL_PT_GUARDED_BY(line_mu_);

  mutable Mutex mu_;
  std::string activity_ ABSL_GUARDED_BY(mu_) = "starting";
  std::string waiting_for_ ABSL_GUARDED_BY(mu_);
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  double steps_per_second_ ABSL_GUARDED_BY(mu_) = 0;
  double pace_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_JOB_CONSOLE_H_
