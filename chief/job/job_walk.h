#ifndef COHORT_CHIEF_JOB_JOB_WALK_H_
#define COHORT_CHIEF_JOB_JOB_WALK_H_

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <vector>

#include "chief/api/training_cluster.h"
#include "chief/job/best_tracker.h"
#include "chief/job/checkpoint_catalog.h"
#include "chief/job/checkpoint_policy.h"
#include "chief/job/epoch_runner.h"
#include "chief/job/job_console.h"
#include "chief/job/job_progress.h"
#include "chief/job/job_schedule.h"
#include "chief/job/metrics_log.h"
#include "chief/job/validation.h"
#include "common/base/clock.h"
#include "common/base/log.h"

namespace cohort {

// A job from the moment when its cluster has variables to the moment when its last checkpoint is
// committed. It has no threads, no network and no files of its own, so the simulator runs it too.
//
//   1. Begin: take over unfinished closures, find the best checkpoint, TakeFirstCheckpoint, so that
//      there is a state to go back to.
//   2. Train, per epoch: EpochRunner::Run (checkpoints by steps and seconds), CloseEpoch,
//      CheckpointEpoch, Validate. With keep_best the checkpoint comes after the validation, because
//      its manifest holds the figure.
//   3. Finish: the last checkpoint.
//
// An error that names a lost server leads from anywhere in 1 to 3 to Recover: the cluster goes back
// to its newest checkpoint, and the walk continues from there. Any other error ends it.
class JobWalk {
 public:
  struct Options {
    std::string job_name;
    EpochRunner::Options epochs;
    Validation::Step validation;
    CheckpointPolicy::Options checkpoints;
    uint64_t record_every_steps = 0;  // step records in the metrics log; 0: none
  };
  // What it works with. Everything outlives it.
  struct Environment {
    TrainingCluster* cluster = nullptr;
    const CheckpointCatalog* catalog = nullptr;
    const JobSchedule* schedule = nullptr;
    const Clock* clock = nullptr;
    Logger* log = nullptr;
    JobConsole* console = nullptr;
    MetricsLog* metrics = nullptr;
    BestTracker* best = nullptr;  // null: without keep_best
  };

  JobWalk(const Environment& environment, const Options& options);

  // The three parts above. Errors: those of TrainingCluster; Cancelled after an interrupt.
  absl::Status Run();

  // Figures of this incarnation, for the report.
  const EpochRunner::Figures& figures() const { return epochs_.figures(); }
  const std::vector<MetricTotal>& validation_metrics() const { return validation_.metrics(); }
  // Of the last epoch that it closed.
  const std::vector<MetricTotal>& training_metrics() const { return training_metrics_; }
  // True if it continued from a checkpoint that existed at its start.
  bool continued() const { return continued_; }

 private:
  absl::Status Begin();
  absl::Status TakeFirstCheckpoint();
  absl::Status Train();
  absl::Status TrainEpoch(uint64_t epoch);
  absl::Status CloseEpoch(uint64_t epoch);
  // After so many epochs: by policy, or because the state is the best one.
  absl::Status CheckpointEpoch(uint64_t finished_epochs);
  // With its checkpoint if keep_best asks for one after it.
  absl::Status ValidateAgain(uint64_t finished_epochs);
  absl::Status Validate(uint64_t finished_epochs);
  // True if the cluster is at the end of an epoch that this incarnation has not validated: its
  // predecessor was killed in between, or a server was lost.
  bool LacksValidation(const CoordinatorState& state) const;
  // With keep_best, the epoch's checkpoint comes after its validation.
  bool CheckpointFollowsValidation(uint64_t finished_epochs) const;
  absl::Status Finish();

  // A checkpoint that must succeed. Errors: that of a lost server, typed, among others.
  absl::Status MustCheckpoint(bool finished);
  void CheckpointIfDue(const CoordinatorState& state);
  absl::Status Recover(const absl::Status& error);
  void FindBestAgain();
  // Rates and checkpoint intervals are measured from here.
  void Restart(const CoordinatorState& state);

  const Environment env_;
  const std::string job_name_;
  CheckpointPolicy policy_;
  EpochRunner epochs_;
  Validation validation_;
  JobProgress progress_;
  std::vector<MetricTotal> training_metrics_;
  bool continued_ = false;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_JOB_WALK_H_
