#ifndef COHORT_CHIEF_JOB_CHECKPOINT_POLICY_H_
#define COHORT_CHIEF_JOB_CHECKPOINT_POLICY_H_

#include <cstdint>

#include "common/base/clock.h"

namespace cohort {

// Decides when the job file requires a checkpoint: after a number of steps, seconds or epochs; 0:
// never.
class CheckpointPolicy {
 public:
  struct Options {
    uint64_t every_steps = 0;
    double every_seconds = 0;
    uint64_t every_epochs = 0;
  };

  CheckpointPolicy(const Options& options, const Clock* clock)
      : options_(options), clock_(clock), time_(clock->Now()) {}

  // The intervals start here: a checkpoint was taken or tried, or the cluster was restored, at
  // `steps`.
  void Restart(uint64_t steps) {
    steps_ = steps;
    time_ = clock_->Now();
  }
  // True if the last one was taken, or tried, at `steps`.
  bool IsFresh(uint64_t steps) const { return steps_ == steps; }
  // True if a checkpoint is due during an epoch.
  bool DueAt(uint64_t steps) const {
    const bool by_steps = options_.every_steps > 0 && steps >= steps_ + options_.every_steps;
    const bool by_time =
        options_.every_seconds > 0 && ToSeconds(clock_->Now() - time_) >= options_.every_seconds;
    return by_steps || by_time;
  }
  // True if a checkpoint is due at the end of an epoch.
  bool DueAfter(uint64_t finished_epochs) const {
    return options_.every_epochs > 0 && finished_epochs % options_.every_epochs == 0;
  }

 private:
  const Options options_;
  const Clock* const clock_;
  uint64_t steps_ = 0;  // steps at the last checkpoint
  TimePoint time_;      // time of the last checkpoint
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_CHECKPOINT_POLICY_H_
