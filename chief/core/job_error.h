#ifndef COHORT_CHIEF_CORE_JOB_ERROR_H_
#define COHORT_CHIEF_CORE_JOB_ERROR_H_

#include <absl/status/status.h>

#include <cstdint>
#include <utility>

#include "common/base/status.h"

namespace cohort {

// The job's error, with the semantics of ClusterCoordinator:
//
//   none ──(1) Raise──► cancelling ──(2) no worker runs a closure──► ready ──(3) Take──► none
//
// (1) The first error counts; later errors are dropped. The queue is emptied, and the workers must
// give up their closures. While there is an error, nothing is dispatched. (2) The owner decides
// when this holds. (3) The next call of the client raises the error once.
class JobError {
 public:
  // Edge (1). Returns false if there already is an error.
  bool Raise(absl::Status error, int64_t now_us) {
    if (raised()) return false;
    error_ = std::move(error);
    since_us_ = now_us;
    return true;
  }
  // Edge (3).
  absl::Status Take() { return std::exchange(error_, absl::OkStatus()); }

  bool raised() const { return !error_.ok(); }
  const absl::Status& status() const { return error_; }
  // The status of the closures that end because of the error.
  absl::Status ForOthers() const {
    return Aborted("cancelled because of an earlier error; schedule it again: {}",
                   std::string_view(error_.message().data(), error_.message().size()));
  }
  // Returns true if the workers did not give up their closures within `limit_us`, and restarts the
  // time.
  bool Overdue(int64_t now_us, int64_t limit_us) {
    if (!raised() || now_us - since_us_ < limit_us) return false;
    since_us_ = now_us;
    return true;
  }

 private:
  absl::Status error_;
  int64_t since_us_ = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_JOB_ERROR_H_
