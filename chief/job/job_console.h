#ifndef COHORT_CHIEF_JOB_JOB_CONSOLE_H_
#define COHORT_CHIEF_JOB_JOB_CONSOLE_H_

#include <string>

#include "common/base/mutex.h"
#include "common/report/progress.h"

namespace cohort {

// The console of a running job, and what the job is doing now. Thread-safe: the coordinator reports
// its waits from a thread of its own, and the status page reads the activity from another.
class JobConsole {
 public:
  explicit JobConsole(ProgressLine* line) : line_(line) {}

  // Prints a line that stays.
  void Print(const std::string& text);
  // Prints what the coordinator is waiting for. After the outcome is known, the wait is also the
  // job's activity.
  void PrintWait(const std::string& what);
  // Shows the progress if the console is due for an update; `progress` is called only then.
  template <typename MakeProgress>
  void ShowIfDue(const MakeProgress& make_progress) {
    MutexLock lock(&line_mu_);
    if (line_->due()) line_->Update(make_progress());
  }

  // "training", "waiting for the storage of ...".
  void SetActivity(std::string what);
  std::string activity() const;
  // The outcome is known, and the job is ending. False if it was already.
  bool BeginEnd();

 private:
  // Printing may block as long as the terminal or pipe does, so the activity has its own lock.
  Mutex line_mu_;
  ProgressLine* const line_ ABSL_PT_GUARDED_BY(line_mu_);

  mutable Mutex mu_;
  std::string activity_ ABSL_GUARDED_BY(mu_) = "starting";
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_JOB_CONSOLE_H_
