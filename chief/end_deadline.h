#ifndef COHORT_CHIEF_END_DEADLINE_H_
#define COHORT_CHIEF_END_DEADLINE_H_

#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace cohort {

// Ends the process at a deadline, whatever its other threads hang in. Its own thread writes
// nothing: a log, too, may lie on storage that does not answer.
class EndDeadline {
 public:
  EndDeadline();
  // There is no deadline any more.
  ~EndDeadline();
  EndDeadline(const EndDeadline&) = delete;
  EndDeadline& operator=(const EndDeadline&) = delete;

  // _exit(code) at `at`, in place of what was set before.
  void Set(TimePoint at, int code);

 private:
  void Run();

  Mutex mu_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  TimePoint at_ ABSL_GUARDED_BY(mu_) = TimePoint::max();
  int code_ ABSL_GUARDED_BY(mu_) = 0;
  std::thread thread_;  // the last: it uses what stands above
};

}  // namespace cohort

#endif  // COHORT_CHIEF_END_DEADLINE_H_
