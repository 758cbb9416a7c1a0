#ifndef COHORT_CHIEF_JOB_JOB_WALK_H_
#define COHORT_CHIEF_JOB_JOB_WALK_H_

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "chief/api/training_cluster.h"
#include "chief/job/best_tracker.h"
#include "chief/job/checkpoint_catalog.h"
#include "chief/job/checkpoint_policy.h"
#include "chief/job/epoch_callbacks.h"
#include "chief/job/epoch_runner.h"
#include "chief/job/job_console.h"
#include "chief/job/job_progress.h"
#include "chief/job/job_schedule.h"
#include "chief/job/metrics_log.h"
#include "chief/job/rollback_limit.h"
#include "chief/job/validation.h"
#include "common/base/clock.h"
#include "common/base/log.h"

namespace cohort {

// Runs a job from the moment when its cluster has variables to the commit of its last checkpoint.
// It has no threads, no network and no files, so the simulator runs it too.
//
//   1. Begin: take over unfinished closures, find the best checkpoint, and TakeFirstCheckpoint, to
//      have a state to go back to.
//   2. Train, per epoch: EpochRunner::Run (checkpoints by steps and seconds), ShowEpoch, Validate,
//      CheckpointEpoch. With keep_best or callbacks the checkpoint comes last, because its manifest
//      holds the figure and the record. With callbacks the validation comes before the end of the
//      epoch, because the journal has the record with this end. A callback may end the training.
//   3. Finish: RestoreBest if a callback asks for it, and take the last checkpoint. CheckpointBest
//      comes before, if the last checkpoint has other weights than those that were validated.
//
// If a server is lost anywhere in 1 to 3, Recover takes the cluster back to its newest checkpoint,
// and the walk continues from there. The fifth return to one checkpoint ends the walk
// (RollbackLimit). Any other error ends the walk. So does, in an elastic job, the loss of a server
// that `gives_up` names. If `replicas_change` while an epoch trains, the walk takes a checkpoint
// and ends with an error, too (EndedForReplicas).
class JobWalk {
 public:
  struct Options {
    std::string job_name;
    EpochRunner::Options epochs;
    Validation::Step validation;
    CheckpointPolicy::Options checkpoints;
    JobProgress::Options progress;
    std::optional<double> learning_rate;  // the optimizer's own; nullopt: it has a schedule
    // The last checkpoint has averages, and validations use the values of the variables.
    bool ends_with_other_weights = false;
    std::string stream_place;  // where the files of a stream appear: "in/*.csv"
  };
  // True for the error of a lost server.
  static bool NamesLostServer(const absl::Status& status);
  // True for the error of a walk that has ended because `replicas_change`.
  static bool EndedForReplicas(const absl::Status& status);
  // The objects that the walk uses. They must outlive it.
  struct Environment {
    TrainingCluster* cluster = nullptr;
    const CheckpointCatalog* catalog = nullptr;
    const JobSchedule* schedule = nullptr;
    const Clock* clock = nullptr;
    Logger* log = nullptr;
    JobConsole* console = nullptr;
    MetricsLog* metrics = nullptr;
    BestTracker* best = nullptr;          // null: without keep_best
    EpochCallbacks* callbacks = nullptr;  // null: without callbacks
    // A user may have asked for more epochs: sets them in `schedule`. `ends`: the training ends if
    // there are none. May be null.
    std::function<void(bool ends)> update_epochs;
    // Writes the file of a callback. May be null.
    std::function<void(const CallbackFile&)> write_file;
    // A server is lost. `is_back`: it is connected again, without its variables. Returns true if
    // the job continues without it. Null: it never does.
    std::function<bool(int server, bool is_back)> gives_up;
    // Returns true if the job should continue on more replicas now. May be null.
    std::function<bool()> replicas_change;
  };

  JobWalk(const Environment& environment, const Options& options);

  // Runs the three parts above. Errors: those of TrainingCluster; Cancelled after an interrupt.
  absl::Status Run();

  // Figures of this incarnation, for the report.
  const EpochRunner::Figures& figures() const { return epochs_.figures(); }
  const std::vector<MetricState>& validation_metrics() const { return validation_.metrics(); }
  // The metrics of the last epoch that the walk closed.
  const std::vector<MetricState>& training_metrics() const { return training_metrics_; }
  // True if the walk continued from a checkpoint that existed at its start.
  bool continued() const { return continued_; }

 private:
  absl::Status Begin();
  absl::Status TakeFirstCheckpoint();
  absl::Status Train();
  absl::Status TrainEpoch(uint64_t epoch);
  // Tells that the workers wait for files of a stream, or that they do not any more.
  void ShowWait(const CoordinatorState& state);
  // Prints that servers were replaced, and whether each tablet has a copy.
  void ShowCopies(const CoordinatorState& state);
  // Shows the metrics of an epoch, or of its part up to `max_steps`.
  void ShowEpoch(uint64_t epoch);
  // The callbacks have not seen the epoch: validates, lets them decide, and ends it.
  absl::Status CloseWithCallbacks(uint64_t epoch);
  // The learning rate that the callbacks have decided counts from here on.
  absl::Status ApplyLearningRate();
  absl::Status ApplyBetweenEpochs();
  // The job ends inside this epoch.
  absl::Status EndInside(uint64_t epoch);
  // Takes the checkpoint of an epoch, if the policy requires it or the state is the best one.
  absl::Status CheckpointEpoch(uint64_t finished_epochs);
  // Validates, and takes the checkpoint that keep_best requires after the validation.
  absl::Status ValidateAgain(uint64_t finished_epochs);
  absl::Status Validate(uint64_t finished_epochs);
  // Validates the state, whose number of finished epochs is `at`, and reports it under `epoch`.
  absl::Status ValidateState(uint64_t epoch, uint64_t at);
  // InvalidArgument if a value is not finite, and a callback does not permit it.
  absl::Status CheckFinite(const CoordinatorState& state, uint64_t epoch) const;
  bool stopped() const { return env_.callbacks != nullptr && !env_.callbacks->stopped().empty(); }
  // True if the cluster is at the end of an epoch that this incarnation has not validated. Before
  // the validation, the previous incarnation was killed or a server was lost.
  bool LacksValidation(const CoordinatorState& state) const;
  // True if the epoch's checkpoint is taken after its validation and record.
  bool CheckpointIsLast(uint64_t finished_epochs) const;
  // True if nothing is left to train.
  bool TrainingIsDone(const CoordinatorState& state) const;
  absl::Status Finish();
  // With restore_best_weights: goes back to the best checkpoint.
  absl::Status RestoreBest();
  // Takes the checkpoint of the best state before the last one, which has other weights.
  absl::Status CheckpointBest();

  // Takes a checkpoint that must succeed. Errors: among others, the typed one of a lost server.
  absl::Status MustCheckpoint(bool finished);
  void CheckpointIfDue(const CoordinatorState& state);
  // With `replicas_change`: starts a checkpoint, unless there is one of this state.
  void SaveFromLosses();
  // Takes a checkpoint and returns an error if `replicas_change`.
  absl::Status EndForReplicas(const CoordinatorState& state);
  absl::Status Recover(const absl::Status& error);
  // True if the lost server that `error` names is there again.
  bool IsBack(const absl::Status& error) const;
  void FindBestAgain();
  // `journal`: what the journal has of epochs after the newest checkpoint.
  void RecallEpochs(const std::vector<v1::EpochRecord>& journal);
  // Measures rates and checkpoint intervals from now.
  void Restart(const CoordinatorState& state);

  const Environment env_;
  const std::string job_name_;
  const std::optional<double> learning_rate_;  // Options::learning_rate
  const bool ends_with_other_weights_;
  const std::string stream_place_;
  CheckpointPolicy policy_;
  EpochRunner epochs_;
  Validation validation_;
  JobProgress progress_;
  RollbackLimit rollbacks_;
  std::vector<MetricState> training_metrics_;
  bool continued_ = false;
  bool ended_inside_ = false;  // EndInside is done
  bool waits_for_files_ = false;
  uint64_t replaced_ = 0;                // servers, as the console has told
  bool degraded_ = false;                // the same
  std::optional<TimePoint> idle_since_;  // since when no place is known that could be trained
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_JOB_WALK_H_
