#ifndef COHORT_CHIEF_API_CALL_WAITS_H_
#define COHORT_CHIEF_API_CALL_WAITS_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <functional>
#include <list>
#include <string>

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

}  // namespace cohort

#endif  // COHORT_CHIEF_API_CALL_WAITS_H_
