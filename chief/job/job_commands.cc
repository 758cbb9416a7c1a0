#include "chief/job/job_commands.h"

#include <utility>

#include "common/base/status.h"
#include "common/data/stream_files.h"
#include "common/model/batch_text.h"
#include "common/model/job_defaults.h"
#include "common/model/strategies.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

// The command of `cohort ctl` that asks for it.
std::string CommandOf(const TabletMove& move) {
  switch (move.what) {
    case TabletMove::What::kAdd:
      return "add-ps " + move.address;
    case TabletMove::What::kDrain:
      return fmt::format("drain-ps {}", move.ps);
    case TabletMove::What::kReturn:
      return fmt::format("return-ps {}", move.ps);
    case TabletMove::What::kFence:
      return fmt::format("fence ps:{}", move.ps);
    case TabletMove::What::kRebalance:
    case TabletMove::What::kMove:  // no command
      break;
  }
  return "rebalance";
}

}  // namespace

void JobCommands::OnPlan(JobPlan* plan, JobControls* controls) {
  plan_ = plan;
  controls_ = controls;
  has_plan_ = true;
}

std::optional<std::string> JobCommands::stopped_at() const {
  MutexLock lock(&mu_);
  return stopped_at_;
}

absl::StatusOr<std::shared_ptr<ClusterCoordinator>> JobCommands::RunningCluster() const {
  auto cluster = job_.cluster();
  if (cluster != nullptr) return cluster;
  return FailedPrecondition("the job does not train yet: it is {}", job_.console->activity());
}

JobStatus JobCommands::Status() const {
  JobStatus status;
  status.job = job_.spec->name();
  status.activity = job_.console->activity();
  const v1::DataSpec& data = job_.spec->data();
  const bool is_stream = data.visitation() == v1::STREAM;
  status.stream = job_.stream();
  if (is_stream && !status.stream.has_value()) {
    status.stream = StreamFigures{.place = StreamPlace(data.train())};
  }
  if (!has_plan_) return status;
  const JobControls::Asked asked = controls_->asked();
  status.epochs = asked.epochs;
  status.steps = asked.steps;
  if (asked.paused) status.activity = "paused";
  if (is_stream) {
    status.epochs = 0;
    if (status.steps >= kEpochsOfStream) status.steps = 0;
  }
  status.steps_per_second = job_.console->steps_per_second();
  if (status.activity != "paused") status.pace = job_.console->pace();
  if (const auto cluster = job_.cluster()) {
    status.state = cluster->state();
    status.newest_checkpoint = cluster->newest_checkpoint();
    status.learning_rate = status.state->learning_rate;
    if (!status.learning_rate.has_value()) {
      const auto schedule = plan_->LearningRate();
      status.learning_rate =
          schedule ? schedule(status.state->iteration) : plan_->ConstantLearningRate();
    }
  }
  return status;
}

absl::StatusOr<std::string> JobCommands::TakeCheckpoint() {
  COHORT_ASSIGN_OR_RETURN(const auto cluster, RunningCluster());
  return cluster->CheckpointNow();
}

absl::StatusOr<std::string> JobCommands::Stop() {
  std::string checkpoint;
  if (has_plan_) {
    COHORT_ASSIGN_OR_RETURN(checkpoint, TakeCheckpoint());
  }
  {
    MutexLock lock(&mu_);
    stopped_at_ = checkpoint;
  }
  job_.interrupt();
  return checkpoint;
}

absl::StatusOr<double> JobCommands::SetLearningRate(double rate) {
  COHORT_ASSIGN_OR_RETURN(const auto cluster, RunningCluster());
  if (!(rate >= 0 && rate <= 1e30)) return InvalidArgument("the learning rate cannot be {}", rate);
  if (plan_->model().optimizers.size() != 1) {
    return FailedPrecondition(
        "the job has {} optimizers, and `set learning_rate` is for one: stop the job, change its "
        "file and continue",
        plan_->model().optimizers.size());
  }
  if (plan_->LearningRate()) {
    return FailedPrecondition(
        "the optimizer has a schedule as its learning rate, so it cannot be set: stop the job, "
        "change its file and continue");
  }
  if (plan_->spec().model().dtype() != "float64") {
    rate = static_cast<double>(static_cast<float>(rate));
  }
  COHORT_RETURN_IF_ERROR(cluster->SetLearningRate(rate, /*by_user=*/true));
  job_.console->Print(
      fmt::format("`cohort ctl set` has changed the learning rate: it is {:.4g}, from "
                  "step {}",
                  rate, cluster->state().steps));
  return rate;
}

absl::Status JobCommands::SetPaused(bool paused) {
  COHORT_ASSIGN_OR_RETURN(const auto cluster, RunningCluster());
  COHORT_RETURN_IF_ERROR(controls_->SetPaused(paused, cluster.get()));
  job_.console->Print(fmt::format("`cohort ctl {}` at step {}", paused ? "pause" : "resume",
                                  cluster->state().steps));
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> JobCommands::MoveTablets(const TabletMove& move) {
  COHORT_ASSIGN_OR_RETURN(const auto cluster, RunningCluster());
  const StrategyClass* const strategy = FindStrategy(plan_->spec().strategy().name());
  if (strategy->replicas_own) {
    return FailedPrecondition(
        "tablets cannot move with strategy {}: its replicas have the variables", strategy->name);
  }
  COHORT_RETURN_IF_ERROR(cluster->MoveTablets(move));
  const CoordinatorState state = cluster->state();
  job_.console->Print(fmt::format("`cohort ctl {}` at step {}: {} tablets move", CommandOf(move),
                                  state.steps, state.tablets_moving));
  return state.tablets_moving;
}

absl::Status JobCommands::FenceWorker(int worker, bool fenced) {
  COHORT_ASSIGN_OR_RETURN(const auto cluster, RunningCluster());
  const StrategyClass* const strategy = FindStrategy(plan_->spec().strategy().name());
  if (strategy->replicas_own) {
    return FailedPrecondition("a worker of strategy {} cannot be fenced: it has variables",
                              strategy->name);
  }
  COHORT_RETURN_IF_ERROR(controls_->FenceWorker(worker, fenced, cluster.get()));
  job_.console->Print(fmt::format("`cohort ctl {} worker:{}` at step {}",
                                  fenced ? "fence" : "unfence", worker, cluster->state().steps));
  return absl::OkStatus();
}

absl::Status JobCommands::Extend(uint64_t epochs) {
  COHORT_RETURN_IF_ERROR(RunningCluster().status());
  COHORT_RETURN_IF_ERROR(controls_->Extend(epochs));
  job_.console->Print(fmt::format("`cohort ctl extend`: the job has {} epochs", epochs));
  return absl::OkStatus();
}

absl::StatusOr<ModeSettings> JobCommands::ChangeMode(const ModeChange& change) {
  COHORT_ASSIGN_OR_RETURN(const auto cluster, RunningCluster());
  if (change.mode == ConsistencyMode::kSync && plan_->schedule().steps_per_closure > 1) {
    return FailedPrecondition("the job has `steps_per_execution: {}`, and mode sync needs 1",
                              plan_->schedule().steps_per_closure);
  }
  const auto workers = static_cast<uint32_t>(job_.tasks->tasks(Role::kWorker).size());
  COHORT_ASSIGN_OR_RETURN(const ModeSettings request,
                          ModeAfter(change, cluster->state().mode, workers));
  const v1::JobSpec& spec = plan_->spec();
  const StrategyClass* const strategy = FindStrategy(spec.strategy().name());
  if (strategy->replicas_own &&
      (request.mode != ConsistencyMode::kSync || request.backup_work != BackupWork::kNone)) {
    return FailedPrecondition(
        "strategy {} needs mode sync without backup work, because its replicas are copies of each "
        "other",
        strategy->name);
  }
  const bool repeatable =
      request.mode == ConsistencyMode::kSync && request.backup_work != BackupWork::kDrop;
  if (spec.strategy().deterministic() == "true" && !repeatable) {
    return FailedPrecondition(
        "the job has `deterministic: true`, which needs mode sync without drop");
  }
  if (spec.data().global_batch_size() > 0 &&
      (request.mode != ConsistencyMode::kSync ||
       request.closures_per_step != spec.strategy().closures_per_step())) {
    return FailedPrecondition(
        "the job has a `global_batch_size` of {}, which `closures_per_step: {}` makes up",
        spec.data().global_batch_size(), spec.strategy().closures_per_step());
  }
  if (spec.strategy().scale_learning_rate() == "linear" &&
      (request.mode != ConsistencyMode::kSync ||
       request.closures_per_step != plan_->closures_per_step() ||
       request.replicas_to_aggregate != spec.strategy().replicas_to_aggregate())) {
    return FailedPrecondition(
        "the job has `scale_learning_rate: linear`, and the learning rate was multiplied for steps "
        "of {} closures: stop the job, change its file and continue",
        UsedClosures(spec.strategy(), plan_->closures_per_step()));
  }
  COHORT_RETURN_IF_ERROR(cluster->SetMode(request));
  job_.console->Print(
      fmt::format("`cohort ctl set-mode` has changed the mode: it is {}, from step {}",
                  TextOf(request), cluster->state().steps));
  return request;
}

}  // namespace cohort
