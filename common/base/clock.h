#ifndef COHORT_COMMON_BASE_CLOCK_H_
#define COHORT_COMMON_BASE_CLOCK_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace cohort {

// Monotonic time of one process; it has no meaning in another process. The type is that of
// steady_clock, so that CondVar::WaitUntil takes it.
using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

inline double ToSeconds(Duration d) { return std::chrono::duration<double>(d).count(); }

// The longest duration that a user may request: 31 years. The sum of the present and a few such
// durations does not overflow. FlagSet::AddSeconds and the check of job files refuse longer ones.
inline constexpr double kMaxSeconds = 1e9;
// True for a duration that can be waited for: finite, not negative, not above kMaxSeconds.
inline bool IsValidSeconds(double seconds) { return seconds >= 0 && seconds <= kMaxSeconds; }

// Clamps to plus or minus kMaxSeconds. NaN counts as the longest duration.
inline Duration FromSeconds(double seconds) {
  const double held = seconds <= kMaxSeconds ? std::max(seconds, -kMaxSeconds) : kMaxSeconds;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(held));
}
inline int64_t MicrosFromSeconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::microseconds>(FromSeconds(seconds)).count();
}

// A source of time. It is injected, so that a whole cluster can run on a virtual clock.
// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Never decreases.
  virtual TimePoint Now() const = 0;
  // Microseconds since 1970, for people and files. May jump.
  virtual int64_t UnixMicros() const = 0;
};

// The machine's clocks.
class RealClock : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
  int64_t UnixMicros() const override;
};

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_CLOCK_H_
