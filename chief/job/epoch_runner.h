#ifndef COHORT_CHIEF_JOB_EPOCH_RUNNER_H_
#define COHORT_CHIEF_JOB_EPOCH_RUNNER_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "chief/api/training_cluster.h"
#include "chief/job/job_schedule.h"
#include "common/base/clock.h"

namespace cohort {

// Schedules the closures of an epoch: first those that a restart, an error or a restore left
// unfinished, then the places in order. At most `window` closures wait in the cluster: with these,
// no worker waits for the chief. One thread at a time may use it.
class EpochRunner {
 public:
  struct Options {
    StepFunction step;
    PerWorkerDataset dataset;
    uint64_t window = 4096;      // how many closures may wait
    double poll_seconds = 0.05;  // period of scheduling and of on_progress
    // Called before closures are scheduled: adds files of a stream to the schedule. May be null.
    std::function<absl::Status()> update = nullptr;
  };
  // The costs of this incarnation's epochs, without validation.
  struct Figures {
    uint64_t steps = 0;
    double seconds = 0;
    int64_t fsyncs = 0;    // fsyncs of the chief's process
    double last_rate = 0;  // steps per second in the last epoch or part of an epoch
  };
  // An error ends the epoch.
  using OnProgress = std::function<absl::Status(const CoordinatorState&)>;

  EpochRunner(TrainingCluster* cluster, const JobSchedule* schedule, const Clock* clock,
              const Options& options)
      : cluster_(cluster), schedule_(schedule), clock_(clock), options_(options) {}

  // At the start and after a restore: takes over the closures that the cluster left unfinished.
  void TakeUnfinished();
  // True if the cluster is exactly between two epochs: all earlier closures are finished.
  bool BetweenEpochs(const CoordinatorState& state) const {
    return unfinished_.empty() && state.next_place == schedule_->BeginOf(state.epoch);
  }

  // Trains `epoch` (counted from 0) to its end. Errors: those of TrainingCluster and of
  // on_progress.
  absl::Status Run(uint64_t epoch, const OnProgress& on_progress);

  const Figures& figures() const { return figures_; }

 private:
  absl::Status ScheduleUntilDone(uint64_t epoch, const OnProgress& on_progress);
  absl::Status ScheduleMore(uint64_t epoch_end);
  absl::Status ScheduleAt(uint64_t place, uint32_t steps);

  TrainingCluster* const cluster_;
  const JobSchedule* const schedule_;
  const Clock* const clock_;
  const Options options_;

  std::vector<UnfinishedClosure> unfinished_;
  size_t next_unfinished_ = 0;  // the first one that is not scheduled yet
  Figures figures_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_EPOCH_RUNNER_H_
