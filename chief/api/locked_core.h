#ifndef COHORT_CHIEF_API_LOCKED_CORE_H_
#define COHORT_CHIEF_API_LOCKED_CORE_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <functional>
#include <memory>

#include "chief/api/call_waits.h"
#include "chief/core/coordinator_core.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace cohort {

// The core, the one lock of a ClusterCoordinator, and the calls that wait for the core. The lock
// guards the core, and the state that the parts of the coordinator change together with the core.
// The core calls its effects while the lock is held.
class LockedCore {
 public:
  LockedCore(const Clock* clock, double task_timeout_s,
             const std::atomic<bool>* interrupt = nullptr);

  // Creates the core. At most once, before any other thread uses this object.
  void Create(CoreOptions options, CoreEffects* effects);

  Mutex* mu() const ABSL_LOCK_RETURNED(mu_) { return &mu_; }
  // Runs an input of the core under the lock, and wakes the calls whose condition has become true.
  void Input(const std::function<void(CoordinatorCore*)>& input);
  // Makes every call that waits return Cancelled, now and later.
  void Interrupt();
  // Returns the time `seconds` from now.
  TimePoint Deadline(double seconds) const { return clock_->Now() + FromSeconds(seconds); }

  // ------------------------------------------------------------- with the lock held
  // Null before Create.
  CoordinatorCore* get() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return core_.get(); }
  CallWaits* waits() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return &waits_; }
  // True if the chief has failed permanently; every call then returns the core's error.
  bool failed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return core_->view().phase() == CoordinatorCore::Phase::kFailed;
  }
  // Waits until `condition` holds or the chief has failed. Returns false at the deadline. Errors:
  // Cancelled (Interrupt).
  absl::StatusOr<bool> Wait(const CallWaits::Condition& condition, TimePoint deadline,
                            const CallWaits::Description& description = {})
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The same, for a call that does not end after Interrupt.
  bool WaitDespiteInterrupt(const CallWaits::Condition& condition, TimePoint deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the error of a call that has waited for tasks for task_timeout_s: DeadlineExceeded that
  // names them.
  absl::Status GaveUp() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

 private:
  const Clock* const clock_;
  const double task_timeout_s_;

  mutable Mutex mu_;
  CallWaits waits_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<CoordinatorCore> core_ ABSL_GUARDED_BY(mu_) ABSL_PT_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_LOCKED_CORE_H_
