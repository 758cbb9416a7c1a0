#ifndef COHORT_COMMON_BASE_CRASH_POINT_H_
#define COHORT_COMMON_BASE_CRASH_POINT_H_

#include <absl/status/status.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/crash_point_list.h"

namespace cohort {

// Crash points: `--crash_point=name[:nth]` makes the process kill itself with SIGKILL when it
// reaches the named place for the nth time (default: 1). Before that it writes one line to stderr:
//
//   crash_point name=ps.push.applied nth=3
//
// With `--crash_point=name:nth:hold` the thread that reaches the place stays there forever instead,
// and the line ends with " held". This simulates a disk, a kernel or a lock that never returns.
//
// The state belongs to the process, because the process is what ends. An unarmed point costs one
// relaxed load.

// The index of a name in kCrashPoints, or kNoCrashPoint for an unknown name.
inline constexpr size_t kNoCrashPoint = SIZE_MAX;
constexpr size_t CrashPointIndex(std::string_view name) {
  for (size_t i = 0; i < std::size(kCrashPoints); ++i) {
    if (kCrashPoints[i] == name) return i;
  }
  return kNoCrashPoint;
}

// Arms one point. Errors: InvalidArgument for an unknown name (with the nearest known name) or a
// bad count.
absl::Status ArmCrashPoint(std::string_view name_and_nth);

// For tests: counts hits from now on, and calls `action` instead of the kill (nullptr: kills).
void WatchCrashPoints(void (*action)(std::string_view name));
// Hits of a listed name since WatchCrashPoints or ArmCrashPoint.
int64_t CrashPointHits(std::string_view name);

namespace internal {
extern std::atomic<bool> crash_points_live;
void HitCrashPoint(size_t index);
}  // namespace internal

}  // namespace cohort

#define COHORT_CRASH_POINT(name)                                                              \
  do {                                                                                        \
    constexpr size_t cohort_crash_point_ = ::cohort::CrashPointIndex(name);                   \
    static_assert(cohort_crash_point_ != ::cohort::kNoCrashPoint,                             \
                  "add this crash point to common/base/crash_point_list.h");                  \
    if (::cohort::internal::crash_points_live.load(std::memory_order_relaxed)) [[unlikely]] { \
      ::cohort::internal::HitCrashPoint(cohort_crash_point_);                                 \
    }                                                                                         \
  } while (false)

#endif  // COHORT_COMMON_BASE_CRASH_POINT_H_
