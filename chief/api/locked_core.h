#ifndef COHORT_CHIEF_API_LOCKED_CORE_H_
#define COHORT_CHIEF_API_LOCKED_CORE_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "chief/api/remote_value.h"
#include "chief/core/coordinator_core.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace cohort {

// The calls that wait until a condition holds, for example until a queue has room. One mutex of the
// owner guards this object and everything that the conditions read. Whoever changes that state
// calls Wake before it releases the mutex. Every function needs the mutex; `mu` is that mutex.
class CallWaits {
 public:
  using Condition = std::function<bool()>;
  // Returns what a call is waiting for: "waiting for checkpoint DIR: ..."; "": nothing to report.
  using Description = std::function<std::string()>;
  static constexpr TimePoint kForever = TimePoint::max();

  // `interrupt`: null, or a flag that any thread may set; see CheckFlag.
  explicit CallWaits(const Clock* clock, const std::atomic<bool>* interrupt = nullptr);

  // Waits, with `mu` released. Returns true if `condition` holds, false at the deadline. Errors:
  // Cancelled after Interrupt, unless the condition holds.
  absl::StatusOr<bool> Wait(Mutex* mu, const Condition& condition, TimePoint deadline,
                            const Description& description = {}) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // The same, for a call that does not end after Interrupt.
  bool WaitDespiteInterrupt(Mutex* mu, const Condition& condition, TimePoint deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Wakes the calls if a condition holds.
  void Wake();
  // Makes every Wait return Cancelled, now and later.
  void Interrupt();
  // Calls Interrupt if the flag is set. The owner calls it often: nothing else reads the flag.
  void CheckFlag();

  // Returns the first description that is not empty, or "".
  std::string Describe() const;
  // Returns `text()` if a call waits and a report is due; otherwise "". A report is due 3 s after
  // the last one, or 1 s after a text that was empty.
  std::string TakeReport(const Description& text);

 private:
  struct Call {
    const Condition& condition;
    const Description& description;
  };

  const Clock* const clock_;
  const std::atomic<bool>* const flag_;
  CondVar changed_;
  std::list<const Call*> calls_;
  bool interrupted_ = false;
  TimePoint next_report_;
};

// The core, the one lock of a ClusterCoordinator, and the calls that wait for the core. The lock
// guards the core, and the state that the parts of the coordinator change together with the core.
// The core calls its effects while the lock is held.
class LockedCore {
 public:
  explicit LockedCore(const Clock* clock, const std::atomic<bool>* interrupt = nullptr);

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
  // Returns the error of a call that has waited for tasks for so long: DeadlineExceeded that names
  // them.
  absl::Status GaveUp(double after_s) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

 private:
  const Clock* const clock_;

  mutable Mutex mu_;
  CallWaits waits_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<CoordinatorCore> core_ ABSL_GUARDED_BY(mu_) ABSL_PT_GUARDED_BY(mu_);
};

// Tells the core that a client waits for a closure: its step may then be short. RemoteValues may
// outlive the core.
class WaitingFetches : public FetchListener {
 public:
  explicit WaitingFetches(LockedCore* core) : core_(core) {}
  void AddWaiting(int calls) override;
  void Close();

 private:
  Mutex mu_;                               // acquired before the core's
  LockedCore* core_ ABSL_GUARDED_BY(mu_);  // null after Close
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_LOCKED_CORE_H_
