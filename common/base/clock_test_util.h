#ifndef COHORT_COMMON_BASE_CLOCK_TEST_UTIL_H_
#define COHORT_COMMON_BASE_CLOCK_TEST_UTIL_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "common/base/clock.h"

namespace cohort {

// Stands still until Advance. It starts one hour after the epoch of steady_clock, so that a default
// TimePoint lies in the past, at a date that is easy to read.
class ManualClock : public Clock {
 public:
  TimePoint Now() const override {
    return TimePoint(std::chrono::hours(1)) + Micros(micros_.load());
  }
  // From 2026-01-01T00:00:00Z.
  int64_t UnixMicros() const override { return 1'767'225'600'000'000 + micros_.load(); }
  void Advance(Duration by) { micros_ += std::chrono::duration_cast<Micros>(by).count(); }

 private:
  using Micros = std::chrono::microseconds;
  std::atomic<int64_t> micros_{0};
};

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_CLOCK_TEST_UTIL_H_
