#ifndef COHORT_CHIEF_CORE_JOB_ERROR_H_
#define COHORT_CHIEF_CORE_JOB_ERROR_H_

#include <absl/status/status.h>

#include <cstdint>
#include <string_view>
#include <utility>

#include "chief/core/closure_queue.h"
#include "chief/core/core_context.h"
#include "chief/core/unfinished_closures.h"
#include "common/base/status.h"

namespace cohort {

// The job's error, with the semantics of ClusterCoordinator:
//
//   none ──(1) Raise──► cancelling ──(2) no worker runs a closure──► ready ──(3) Take──► none
//
// (1) The first error counts; later errors are dropped. The queue is emptied, and the workers must
// give up their closures. While there is an error, nothing is dispatched. (3) The next call of the
// client raises the error once.
class JobError {
 public:
  JobError(const CoreContext* context, const ClosureQueue* queue,
           const UnfinishedClosures* unfinished)
      : context_(context), queue_(queue), unfinished_(unfinished) {}

  // Edge (1). Returns false if there already is an error.
  bool Raise(absl::Status error) {
    if (raised()) return false;
    error_ = std::move(error);
    since_us_ = context_->now_us;
    return true;
  }
  // Edge (3). Returns OK if the error is not ready.
  absl::Status Take() { return ready() ? std::exchange(error_, absl::OkStatus()) : absl::Status(); }

  bool raised() const { return !error_.ok(); }
  // True if a worker still runs a closure.
  bool cancelling() const { return raised() && !ready(); }
  // The status of the closures that end because of the error.
  absl::Status ForOthers() const {
    return Aborted("cancelled because of an earlier error; schedule it again: {}",
                   std::string_view(error_.message().data(), error_.message().size()));
  }
  // Returns true if the workers did not give up their closures by the cancel deadline, and restarts
  // the time.
  bool CancelOverdue() {
    const int64_t now_us = context_->now_us;
    if (!cancelling() || now_us - since_us_ < context_->options.cancel_deadline_us) return false;
    since_us_ = now_us;
    return true;
  }

 private:
  bool ready() const { return raised() && queue_->in_flight() == 0 && !unfinished_->held(); }

  const CoreContext* const context_;
  const ClosureQueue* const queue_;
  const UnfinishedClosures* const unfinished_;
  absl::Status error_;
  int64_t since_us_ = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_JOB_ERROR_H_
