#include "common/base/clock.h"

namespace cohort {
namespace {

// A ManualClock starts here: one hour after the epoch of steady_clock, at a date that is easy to
// read.
constexpr std::chrono::hours kManualStart(1);
constexpr int64_t kManualUnixMicros = 1'767'225'600'000'000;  // 2026-01-01T00:00:00Z

}  // namespace

int64_t RealClock::UnixMicros() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

TimePoint ManualClock::Now() const { return TimePoint(kManualStart) + Micros(micros_.load()); }

int64_t ManualClock::UnixMicros() const { return kManualUnixMicros + micros_.load(); }

}  // namespace cohort
