#ifndef COHORT_COMMON_OS_STALL_WATCH_H_
#define COHORT_COMMON_OS_STALL_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/clock.h"

namespace cohort {

// Finds work loops that hang: in a kernel of a GPU, or in a file whose storage does not answer.
// Used by one thread, which does not work itself.
class StallWatch {
 public:
  explicit StallWatch(const Clock* clock) : clock_(clock) {}

  // True once a second: it is time for Look.
  bool due() const { return clock_->Now() >= next_look_; }
  // `turns`: how many turns each loop has made (ServingTask::Turns).
  void Look(const std::vector<uint64_t>& turns);
  // How long the loop that has stood still for the longest time has made no turn. The time in
  // which this process was stopped does not count.
  Duration longest() const { return longest_; }

 private:
  struct Loop {
    uint64_t turns = 0;
    Duration still{};
  };
  const Clock* const clock_;
  std::vector<Loop> loops_;
  TimePoint next_look_{};
  TimePoint last_look_{};
  Duration longest_{};
};

}  // namespace cohort

#endif  // COHORT_COMMON_OS_STALL_WATCH_H_
