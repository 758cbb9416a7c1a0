#ifndef COHORT_PS_SERVER_COPIES_FILL_RATE_H_
#define COHORT_PS_SERVER_COPIES_FILL_RATE_H_

#include <cstddef>
#include <cstdint>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace cohort {

// The bytes per second that a server sends to fill copies, all of them together: whoever looks
// often enough sends as much on average. Thread-safe.
class FillRate {
 public:
  // `bytes_per_second`: 0: no limit. `clock` outlives this.
  FillRate(uint64_t bytes_per_second, const Clock* clock)
      : bytes_per_second_(static_cast<double>(bytes_per_second)), clock_(clock) {}

  // True if more may be sent now.
  bool MaySend() {
    if (bytes_per_second_ <= 0) return true;
    MutexLock lock(&mu_);
    return free_at_ <= clock_->Now() + kAhead;
  }
  void Sent(size_t bytes) {
    if (bytes_per_second_ <= 0) return;
    MutexLock lock(&mu_);
    free_at_ = std::max(free_at_, clock_->Now()) +
               FromSeconds(static_cast<double>(bytes) / bytes_per_second_);
  }

 private:
  // What may be sent at once: that of the time between two looks (Copies::Tick).
  static constexpr Duration kAhead = std::chrono::milliseconds(100);

  const double bytes_per_second_;
  const Clock* const clock_;
  Mutex mu_;
  TimePoint free_at_ ABSL_GUARDED_BY(mu_);  // when what was sent has passed at this rate
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_COPIES_FILL_RATE_H_
