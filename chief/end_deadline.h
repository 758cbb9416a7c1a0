#ifndef COHORT_CHIEF_END_DEADLINE_H_
#define COHORT_CHIEF_END_DEADLINE_H_

#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace cohort {

// Ends the process at a deadline, even if its other threads hang. Its own thread writes nothing,
// because the log may also be on storage that does not answer.
class EndDeadline {
 public:
  EndDeadline();
  // Removes the deadline.
  ~EndDeadline();
  EndDeadline(const EndDeadline&) = delete;
  EndDeadline& operator=(const EndDeadline&) = delete;

  // Calls _exit(code) at `at`. This replaces the previous deadline.
  void Set(TimePoint at, int code);

 private:
  void Run();

  Mutex mu_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  TimePoint at_ ABSL_GUARDED_BY(mu_) = TimePoint::max();
  int code_ ABSL_GUARDED_BY(mu_) = 0;
  std::thread thread_;  // the last member: it uses those above
};

}  // namespace cohort

#endif  // COHORT_CHIEF_END_DEADLINE_H_
