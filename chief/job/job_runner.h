#ifndef COHORT_CHIEF_JOB_JOB_RUNNER_H_
#define COHORT_CHIEF_JOB_JOB_RUNNER_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "chief/api/coordinator.h"
#include "chief/job/best_tracker.h"
#include "chief/job/checkpoint_news.h"
#include "chief/job/elastic_replicas.h"
#include "chief/job/job_commands.h"
#include "chief/job/job_console.h"
#include "chief/job/job_controls.h"
#include "chief/job/job_directory.h"
#include "chief/job/job_plan.h"
#include "chief/job/job_report.h"
#include "chief/job/job_walk.h"
#include "chief/job/metrics_log.h"
#include "chief/job/run_events.h"
#include "chief/job/stream_watch.h"
#include "chief/job/weight_recorder.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/cluster/security.h"
#include "common/report/progress.h"

namespace cohort {

class AdminServer;

struct JobRunnerOptions {
  ClusterSpec cluster;
  JobFile job;
  DataOptions data;
  std::string checkpoint_dir;  // "" = the job file's
  std::string log_dir;         // "" = the job file's; if that is empty too, nothing is written
  bool fresh = false;          // delete the checkpoints of earlier runs
  bool finished_ok = false;    // accept a directory that holds this job finished
  std::string launch;          // names the launch for the evaluator (RunNote)
  bool takeover = false;
  std::string join_bind;  // CoordinatorOptions
  bool standby = false;   // waits for the end of another chief
  std::shared_ptr<const Security> security = Security::LoopbackOnly();
  double task_timeout_s = 0;  // 0: the job file's
  uint64_t chief_incarnation = 0;
  TimePoint launched;  // when the cluster was launched, for the report; default: unknown
  const Clock* clock = nullptr;
  Logger* log = nullptr;
  ProgressLine* progress = nullptr;
  // Called as soon as the outcome is known. That may be long before Run returns, because storage
  // that does not answer delays the end. May be empty.
  std::function<void(const absl::StatusOr<JobReport>&)> on_outcome;
};

// Trains the job of a job file, as a client of ClusterCoordinator.
//
//   1. JobPlan::Make: data, model, schedule.
//   2. JobDirectory: lock the checkpoint directory and check what it holds. With `fresh`,
//      FirstWeights::Check comes before anything is deleted. If there is no checkpoint,
//      FirstWeights::Write puts the values that variables begin with beside the journal.
//   3. StartCluster: the coordinator, programs, datasets, variables.
//   4. JobWalk::Run: first checkpoint, epochs, validation, last checkpoint.
//   5. FillReport, then Shutdown: every task ends.
//
// With `elastic`, a replica that is lost or back ends 4. Then 2 to 4 run again on other replicas
// (ElasticReplicas).
//
// From 3 on, `cohort ctl` reaches the job by a socket in the checkpoint directory. Only the holder
// of the directory's lock has this socket. While a job waits for the first file of its stream, it
// has the socket if no other chief answers there.
class JobRunner {
 public:
  explicit JobRunner(JobRunnerOptions options);
  ~JobRunner();

  // Errors: those of the job and its data; Unavailable if another chief has the directory;
  // FailedPrecondition if the directory holds a finished job (unless `finished_ok`) or another job;
  // those of the cluster; Cancelled after Interrupt; Cancelled with ExitCode::kStopped
  // after Stop.
  absl::StatusOr<JobReport> Run();
  // Makes finished closures durable, and Run return Cancelled soon. Thread-safe.
  void Interrupt() { interrupted_ = true; }
  // The coordinator, for the status page; null before its start and after its end. Thread-safe.
  std::shared_ptr<ClusterCoordinator> coordinator() const;
  // True from the first time that all variables are initialized or restored. Thread-safe.
  bool started() const { return started_; }
  // What Run is doing: "training", "waiting for the storage of ...". Thread-safe.
  std::string activity() const { return console_.activity(); }
  // The text of /readyz: "" when the job has its directory and knows what it continues, else what
  // it is doing. It does not wait for the tasks. Thread-safe.
  std::string Readiness() const { return has_directory_ ? "" : activity(); }
  // How far it has read its stream; nullopt: it has none, or has not begun. Thread-safe.
  std::optional<StreamFigures> stream() const;
  // What it waits for, as of the last report; "": nothing. Thread-safe.
  std::string waiting_for() const { return console_.waiting_for(); }

  // For the status page. Thread-safe.
  JobStatus Status() const { return commands_.Status(); }

 private:
  // Starts to answer `cohort ctl`. A job does without, if its directory can hold no socket.
  void StartControl();
  // Ends the calls of `cohort ctl` that still wait.
  void EndControl();
  // Returns the error of a job that Stop has ended, and otherwise `outcome`.
  absl::StatusOr<JobReport> AfterStop(absl::StatusOr<JobReport> outcome) const;
  absl::StatusOr<JobReport> RunPlan();
  // With `elastic`: begins to watch the replicas.
  absl::Status OpenReplicas();
  // Uses the replicas that a former chief has left, if a supervisor has restarted this one.
  void RecallReplicas();
  // With `elastic`: ends the cluster if RunPlan, which has returned `status`, should run again on
  // other replicas. Returns false if not.
  bool ChangeReplicas(const absl::Status& status);
  // True after a change: the numbers of replicas are not those of TF_CONFIG.
  bool renumbered() const { return replicas_ != nullptr && replicas_->changed(); }
  void WriteCallbackFile(const CallbackFile& file);
  // Ends the coordinator and gives the directory back.
  void EndCluster();
  absl::StatusOr<std::unique_ptr<JobDirectory>> TakeDirectory();
  // Takes over the places of the checkpoint's epochs, and logs what has changed since.
  // Errors: FailedPrecondition (exit code 78) if nothing says how many.
  absl::Status ChooseClosuresPerStep();
  void Continue(const Continuation& continuation);
  absl::StatusOr<JobReport> RunInDirectory();
  // Visitation stream: waits for the first file, whose columns the plan needs. Errors: NotFound if
  // the stream has ended without a file; Cancelled after Interrupt.
  absl::Status AwaitFirstFile();
  // Reads the list of the stream's files, and begins to look for new ones.
  absl::Status OpenStream();
  // Adds new files to the schedule.
  absl::Status UpdateStream();
  // Errors: FailedPrecondition if the list lacks places that the cluster has done.
  absl::Status CheckStreamList(const CoordinatorState& state) const;
  std::string CheckpointDirectory() const;
  std::string LogDirectory() const;  // "": the job has none
  absl::Status OpenMetricsLog();
  // Begins what TensorBoard shows besides metrics.
  void OpenRunEvents();
  // True if replicas sum dense gradients in a ring (`strategy.communication`).
  bool UsesRing() const;
  CoordinatorOptions MakeCoordinatorOptions();
  // Starts the cluster, and sets the options of `walk` that depend on it.
  absl::StatusOr<ClusterCoordinator*> StartCluster(JobWalk::Options* walk);
  JobWalk::Options MakeWalkOptions() const;
  // A checkpoint is committed.
  void NoteCheckpoint(const v1::Manifest& manifest);
  // Adds the fields that the coordinator does not know to a manifest. Called on another thread.
  void CompleteManifest(v1::Manifest* manifest) const;
  absl::StatusOr<JobReport> MakeReport(const ClusterCoordinator& cluster, const JobWalk& walk,
                                       const absl::Status& ran) const;
  // Writes the report to the log directory, for programs and as a page. The job does without if
  // that fails.
  void WriteReport(JobReport* report) const;
  // Reports a job that was found finished, unless its directory has a report.
  void WriteMissingReport(JobReport* report) const;
  void WriteSummary(RunSummary summary, JobReport* report) const;
  void ReportOutcome(const absl::StatusOr<JobReport>& outcome);

  const JobRunnerOptions options_;
  // What a change of replicas changes, while there is neither a coordinator nor a control server.
  ClusterSpec cluster_;
  bool fresh_ = false;
  bool in_start_ = false;                      // RunPlan starts the cluster
  std::unique_ptr<ElasticReplicas> replicas_;  // null: without `elastic`
  JobConsole console_;
  MetricsLog metrics_log_;
  CheckpointNews checkpoint_news_;  // the coordinator's thread uses it
  std::unique_ptr<JobPlan> plan_;
  std::unique_ptr<JobControls> controls_;  // from plan_ on
  std::unique_ptr<JobDirectory> directory_;
  std::unique_ptr<BestTracker> best_;          // null: without keep_best
  std::unique_ptr<EpochCallbacks> callbacks_;  // null: without callbacks
  std::unique_ptr<RunEvents> events_;          // null: without the callback TensorBoard
  std::unique_ptr<WeightRecorder> weights_;    // null: if nothing of the weights is reported

  std::shared_ptr<StreamWatch> stream_ ABSL_GUARDED_BY(mu_);  // null: the data is no stream

  std::atomic<bool> interrupted_{false};
  std::atomic<bool> has_directory_{false};  // it is locked, and its checkpoints are read
  std::atomic<bool> started_{false};
  mutable Mutex mu_;
  std::shared_ptr<ClusterCoordinator> coordinator_ ABSL_GUARDED_BY(mu_);

  JobCommands commands_;
  std::unique_ptr<AdminServer> control_;  // its threads use all of the above
};

// Returns the table of common/placement/shard_plan.h.
std::string ShardPlan(const ClusterCoordinator& cluster);

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_JOB_RUNNER_H_
