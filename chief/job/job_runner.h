#ifndef COHORT_CHIEF_JOB_JOB_RUNNER_H_
#define COHORT_CHIEF_JOB_JOB_RUNNER_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "chief/api/coordinator.h"
#include "chief/job/best_keeper.h"
#include "chief/job/job_plan.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/report/progress.h"
#include "common/report/reporter.h"

namespace cohort {

struct JobReport;

struct JobRunnerOptions {
  ClusterSpec cluster;
  JobFile job;
  DataOptions data;
  std::string checkpoint_dir;  // "" = the job file's
  std::string log_dir;         // "" = the job file's; where that is empty too: nothing is written
  bool fresh = false;          // delete the checkpoints of former runs
  bool finished_ok = false;    // a directory that holds this job finished is no error
  bool takeover = false;
  bool allow_insecure = false;
  double task_timeout_s = 0;  // 0: the job file's
  uint64_t chief_incarnation = 0;
  TimePoint launched;  // of the cluster, for the report; default: not told
  const Clock* clock = nullptr;
  Logger* log = nullptr;
  ProgressLine* progress = nullptr;
  // How the job has gone, before all that Run leaves behind has ended, which storage that does not
  // answer may hold up. May be empty.
  std::function<void(const absl::StatusOr<JobReport>&)> on_outcome;
};

// How a job has gone.
struct JobReport {
  std::vector<MetricTotal> training;    // of the last epoch that this life finished
  std::vector<MetricTotal> validation;  // the last evaluation
  CoordinatorState state;
  uint64_t steps = 0;           // of this life
  double training_seconds = 0;  // of this life, without evaluation
  uint64_t restores = 0;
  // The terms of the training: what one closure is, and what was made durable meanwhile.
  uint32_t steps_per_closure = 1;
  uint32_t pull_ahead = 0;
  int64_t fsyncs = 0;                        // of the chief's process, while it trained
  uint64_t checkpoints = 0;                  // begun by policy and committed while it trained
  std::optional<double> first_step_seconds;  // from launch; not of a job that was continued
  uint64_t tablets = 0;
  uint64_t updates = 0;  // over all tablets, as the servers count them in the last checkpoint
  std::string shard_plan;
  std::string checkpoint;                  // the newest
  std::string best_checkpoint;             // of keep_best; "" = there is none
  std::string best_text;                   // "val_loss 0.3126, epoch 4"
  std::optional<uint64_t> found_finished;  // its step, where there was nothing to train any more
  std::string log_dir;
  uint64_t reports = 0;         // of metrics, of this life
  uint64_t reports_failed = 0;  // of these: they are missing in log_dir, in part or as a whole
  std::string report_error;     // the first

  // For a person, many lines.
  std::string Text() const;
};

// The table of common/placement/shard_plan.h.
std::string ShardPlan(const ClusterCoordinator& cluster);
// For --fresh: deletes all checkpoints and journals in `checkpoint_dir`. Calls `may_write` before
// each deletion and ends with its error.
absl::Status DeleteFormerRuns(const std::string& checkpoint_dir, const MayWrite& may_write);

// Trains what a job file says, as a client of ClusterCoordinator.
//
//   1. Plan: data, model, epochs (job_plan.h). 2. Lock the checkpoint directory, look at what it
//   holds.
//   3. Start the coordinator, variables, programs, datasets. 4. TakeFirstCut, so that there is a
//   state to go back to. 5. Per epoch: TrainEpoch (schedule what is unfinished, then the rest;
//   checkpoints by steps and seconds), close it, CheckpointEpoch, Evaluate (with keep_best the
//   checkpoint comes behind it, with what it found). 6. The last checkpoint; every task is told.
//
// A lost ps anywhere in 5 leads to Restore and back to where the checkpoint was.
class JobRunner {
 public:
  explicit JobRunner(JobRunnerOptions options) : options_(std::move(options)) {}

  // Errors: of the job and its data; Unavailable where the directory is another chief's;
  // FailedPrecondition where it holds a finished job (but `finished_ok`) or another; of the
  // cluster; Cancelled after Interrupt.
  absl::StatusOr<JobReport> Run();
  // Makes Run return Cancelled soon, with what is finished durable. Thread-safe.
  void Interrupt();
  // For the status page; null before it has started and after it has ended. Thread-safe.
  std::shared_ptr<ClusterCoordinator> coordinator() const;
  // What Run is at: "training", "waiting for the storage of ...". Thread-safe.
  std::string doing() const;

 private:
  // What lies between plan and end.
  absl::Status RunPlan();
  // job_directory.cc: makes it this chief's (directory_lock.h).
  absl::Status TakeDirectory();
  absl::Status LookAtDirectory();
  absl::Status CheckIsThisJob(const v1::Manifest& manifest) const;
  // Whether a figure of the checkpoint's validation is of the validation set that the job has now.
  bool ValidatedAsNow(const v1::Manifest& manifest) const;
  absl::Status StartCluster();
  absl::Status TakeFirstCut();
  // The first and the last one. Errors: those of a lost server, typed, among others.
  absl::Status MustCheckpoint(bool finished);
  absl::Status TrainAll();
  absl::Status OneEpoch(uint64_t epoch);
  absl::Status EvaluateAgain(uint64_t epoch);
  absl::Status TrainEpoch(uint64_t epoch);
  absl::Status ScheduleMore(uint64_t end);
  absl::Status ScheduleAt(uint64_t place, uint32_t steps);
  absl::Status CloseEpoch(uint64_t epoch);
  // Whether a validation follows the epochs that are finished.
  bool Validates(uint64_t epochs) const;
  // Whether the cluster is at the end of an epoch whose validation this life has not told: one that
  // was killed, or has lost a ps, between the two evaluates again.
  bool LacksValidation(const CoordinatorState& state) const;
  absl::Status Evaluate(uint64_t epoch);
  // After so many: by policy, or for the best.
  absl::Status CheckpointEpoch(uint64_t epochs);
  absl::Status Recover(const absl::Status& error);
  absl::Status End();
  absl::Status FillReport();
  // job_best.cc: with keep_best, else nothing. What is the best of what the cluster goes on from.
  void FindBestAgain();
  // Of the state that the cluster has between two epochs.
  void JudgeValidation(uint64_t epoch);
  bool BestIsGone() const;
  bool HeldByCheckpoint(uint64_t epoch) const;
  // A new best, once.
  void TellBest();
  void CheckpointWhenDue(const CoordinatorState& state);
  // Once, of a loss that is infinite or no number: training goes on, as Keras' does.
  void WarnWhenNotFinite(const CoordinatorState& state);
  void TellProgress(const CoordinatorState& state, uint64_t epoch, const std::string& note);
  void Say(const std::string& line);
  void Do(std::string what);
  // What the coordinator waits for.
  void OnWait(const std::string& what);
  // There is an outcome: what comes now is the end.
  void Tell(const absl::StatusOr<JobReport>& outcome);
  // What cannot be stored is told, once on the console and once in the log for each reason: metrics
  // are not worth a job.
  void Report(MetricsRecord record);

  const JobRunnerOptions options_;
  std::unique_ptr<JobPlan> plan_;
  std::string checkpoint_dir_;
  std::shared_ptr<DirectoryLock> lock_;  // of checkpoint_dir_, while Run runs
  std::string log_dir_;
  double task_timeout_s_ = 0;
  std::unique_ptr<Reporter> reporter_;
  std::set<std::string> report_errors_;  // that are told
  StepFunction train_;
  StepFunction eval_;
  PerWorkerDataset train_data_;
  PerWorkerDataset validation_data_;
  std::vector<UnfinishedPlace> unfinished_;  // to be scheduled before anything new
  uint64_t next_unfinished_ = 0;
  uint64_t steps_at_checkpoint_ = 0;
  TimePoint time_of_checkpoint_;
  uint64_t steps_at_report_ = 0;
  TimePoint time_of_report_;
  double steps_per_second_ = 0;
  uint64_t steps_at_progress_ = 0;
  TimePoint time_of_progress_;
  uint64_t validated_epochs_ = 0;  // the last one that this life has told the validation of
  bool warned_not_finite_ = false;
  bool continued_ = false;            // from a checkpoint of a former life
  std::unique_ptr<BestKeeper> best_;  // null: without keep_best
  bool best_due_ = false;             // what was just validated is better, and not committed yet
  std::string told_best_;
  JobReport report_;

  std::atomic<bool> interrupted_{false};
  Mutex progress_mu_;  // of options_.progress: the coordinator's waits are told on its own thread
  mutable Mutex mu_;
  std::string doing_ ABSL_GUARDED_BY(mu_) = "starting";
  bool told_ ABSL_GUARDED_BY(mu_) = false;  // the outcome
  std::shared_ptr<ClusterCoordinator> coordinator_ ABSL_GUARDED_BY(mu_);
  ClusterCoordinator* cluster_ = nullptr;  // the same, of the runner's thread
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_JOB_RUNNER_H_
