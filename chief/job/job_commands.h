#ifndef COHORT_CHIEF_JOB_JOB_COMMANDS_H_
#define COHORT_CHIEF_JOB_JOB_COMMANDS_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "chief/api/coordinator.h"
#include "chief/job/job_console.h"
#include "chief/job/job_control.h"
#include "chief/job/job_controls.h"
#include "chief/job/job_plan.h"
#include "common/base/mutex.h"
#include "common/cluster/cluster_spec.h"

namespace cohort {

// Carries out what users ask of a running job (`cohort ctl`): refuses what the job cannot do, asks
// the cluster, and prints what has changed. Thread-safe.
class JobCommands : public ControlledJob {
 public:
  // The job, as far as commands need it. The pointers and functions outlive the object.
  struct Job {
    const v1::JobSpec* spec = nullptr;
    const ClusterSpec* tasks = nullptr;  // changes only while no command comes
    JobConsole* console = nullptr;
    std::function<std::shared_ptr<ClusterCoordinator>()> cluster;  // null: there is none
    std::function<std::optional<StreamFigures>()> stream;
    std::function<void()> interrupt;  // the job ends soon
  };
  explicit JobCommands(Job job) : job_(std::move(job)) {}

  // The job has read its data. Once; both outlive the object.
  void OnPlan(JobPlan* plan, JobControls* controls);
  // The checkpoint of Stop; "": it came before the training. nullopt: not stopped.
  std::optional<std::string> stopped_at() const;

  // ControlledJob. Stop leaves the tasks as an interrupt does. What is trained between its
  // checkpoint and the end is trained again.
  JobStatus Status() const override;
  absl::StatusOr<std::string> TakeCheckpoint() override;
  absl::StatusOr<std::string> Stop() override;
  absl::StatusOr<ModeSettings> ChangeMode(const ModeChange& change) override;
  absl::StatusOr<double> SetLearningRate(double rate) override;
  absl::StatusOr<uint64_t> MoveTablets(const TabletMove& move) override;
  absl::Status FenceWorker(int worker, bool fenced) override;
  absl::Status SetPaused(bool paused) override;
  absl::Status Extend(uint64_t epochs) override;

 private:
  // Errors: FailedPrecondition before the cluster has started.
  absl::StatusOr<std::shared_ptr<ClusterCoordinator>> RunningCluster() const;

  const Job job_;
  std::atomic<bool> has_plan_{false};
  JobPlan* plan_ = nullptr;  // valid if has_plan_
  JobControls* controls_ = nullptr;
  mutable Mutex mu_;
  std::optional<std::string> stopped_at_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_JOB_COMMANDS_H_
