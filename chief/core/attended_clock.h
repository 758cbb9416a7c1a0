#ifndef COHORT_CHIEF_CORE_ATTENDED_CLOCK_H_
#define COHORT_CHIEF_CORE_ATTENDED_CLOCK_H_

#include <algorithm>
#include <cstdint>

namespace cohort {

// The clock of the core: the time in which this process has run. A process that was stopped
// (SIGSTOP, a machine that slept) has read nothing meanwhile, so the pause is nobody's silence. All
// limits of the core stand still for that time, and what has arrived is read before they pass.
class AttendedClock {
 public:
  // Ticks come every 10 ms. One that comes so much later follows a pause.
  static constexpr int64_t kPauseUs = 1'000'000;

  explicit AttendedClock(int64_t pause_us = kPauseUs) : pause_us_(pause_us) {}

  // To be called often. Returns how long the process was stopped since the last call; 0: it ran.
  int64_t Tick(int64_t now_us) {
    const int64_t stopped_us = Stopped(now_us);
    stopped_us_ += stopped_us;
    ticked_us_ = now_us;
    return stopped_us;
  }
  // The time without pauses. It never goes backwards.
  int64_t At(int64_t now_us) {
    attended_us_ = std::max(attended_us_, now_us - stopped_us_ - Stopped(now_us));
    return attended_us_;
  }

 private:
  int64_t Stopped(int64_t now_us) const {
    const int64_t since_us = now_us - ticked_us_;
    return ticked_us_ >= 0 && since_us > pause_us_ ? since_us : 0;
  }

  const int64_t pause_us_;
  int64_t ticked_us_ = -1;   // -1: not yet
  int64_t stopped_us_ = 0;   // all pauses
  int64_t attended_us_ = 0;  // the newest result
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_ATTENDED_CLOCK_H_
