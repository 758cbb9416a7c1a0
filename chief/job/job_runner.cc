#include "chief/job/job_runner.h"

#include <algorithm>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/manifest.h"
#include "proto/checkpoint.pb.h"

namespace cohort {

// Closures that wait in the coordinator: enough that workers never do.
constexpr uint64_t kWindow = 4096;

absl::StatusOr<JobReport> JobRunner::Run() {
  Do("reading its data");
  COHORT_ASSIGN_OR_RETURN(JobPlan plan, JobPlan::Make(options_.job, options_.data));
  plan_ = std::make_unique<JobPlan>(std::move(plan));
  const v1::JobSpec& spec = plan_->spec();
  if (const v1::CheckpointSpec& checkpoint = spec.checkpoint(); !checkpoint.keep_best().empty()) {
    best_ = std::make_unique<BestKeeper>(
        BestRule{.metric = checkpoint.keep_best(),
                 .highest = checkpoint.mode() == "max",
                 .comparable = [this](const auto& other) { return ValidatedAsNow(other); }});
  }
  checkpoint_dir_ =
      options_.checkpoint_dir.empty() ? spec.checkpoint().directory() : options_.checkpoint_dir;
  log_dir_ = options_.log_dir.empty() ? spec.report().log_dir() : options_.log_dir;
  task_timeout_s_ =
      options_.task_timeout_s > 0 ? options_.task_timeout_s : spec.strategy().task_timeout_s();
  if (task_timeout_s_ <= 0) task_timeout_s_ = 60;
  const absl::Status status = RunPlan();
  const absl::StatusOr<JobReport> outcome =
      status.ok() ? absl::StatusOr<JobReport>(std::move(report_)) : status;
  Tell(outcome);
  if (const auto last = coordinator()) last->Close();  // the status page still sees it
  {
    MutexLock lock(&mu_);
    coordinator_.reset();
  }
  lock_.reset();
  return outcome;
}

void JobRunner::Tell(const absl::StatusOr<JobReport>& outcome) {
  {
    MutexLock lock(&mu_);
    if (std::exchange(told_, true)) return;
    doing_ = "ending";
  }
  if (options_.on_outcome) options_.on_outcome(outcome);
}

absl::Status JobRunner::RunPlan() {
  COHORT_RETURN_IF_ERROR(TempFailIfDiskFull(TakeDirectory()));
  Do("reading what " + checkpoint_dir_ + " holds");
  COHORT_RETURN_IF_ERROR(TempFailIfDiskFull(LookAtDirectory()));
  if (report_.found_finished.has_value()) return absl::OkStatus();
  if (!log_dir_.empty()) {
    auto reporter = Reporter::Open(log_dir_, options_.clock);
    COHORT_RETURN_IF_ERROR(TempFailIfDiskFull(reporter.status()));
    reporter_ = *std::move(reporter);
  }
  report_.log_dir = log_dir_;
  Do("starting the cluster");
  COHORT_RETURN_IF_ERROR(StartCluster());
  Do("training");
  COHORT_RETURN_IF_ERROR(TrainAll());
  Do("taking the last checkpoint");
  return End();
}

void JobRunner::Interrupt() { interrupted_ = true; }

std::shared_ptr<ClusterCoordinator> JobRunner::coordinator() const {
  MutexLock lock(&mu_);
  return coordinator_;
}

std::string JobRunner::doing() const {
  MutexLock lock(&mu_);
  return doing_;
}

void JobRunner::Do(std::string what) {
  MutexLock lock(&mu_);
  doing_ = std::move(what);
}

absl::Status JobRunner::StartCluster() {
  const v1::JobSpec& spec = plan_->spec();
  CoordinatorOptions options;
  options.cluster = options_.cluster;
  options.job = plan_->identity();
  options.checkpoint_dir = checkpoint_dir_;
  options.chief_incarnation = options_.chief_incarnation;
  options.takeover = options_.takeover;
  options.lock = lock_;
  options.security = options_.security;
  options.seed = spec.seed();
  options.pull_ahead = spec.strategy().pull_ahead();
  options.closures_in_flight = spec.strategy().closures_in_flight();
  options.max_attempts = spec.strategy().max_attempts();
  options.task_timeout_s = task_timeout_s_;
  if (plan_->job().lines.keys.contains("strategy.closure_timeout_s")) {
    options.closure_timeout_s = spec.strategy().closure_timeout_s();
  }
  options.cut_deadline_s = spec.checkpoint().cut_deadline_s();
  options.max_to_keep = spec.checkpoint().max_to_keep();
  options.interrupt = &interrupted_;
  options.clock = options_.clock;
  options.log = options_.log;
  options.on_wait = [this](const std::string& what) { OnWait(what); };
  options.on_failed_start = [this](const absl::Status& status) { Tell(status); };
  options.complete_manifest = [this](v1::Manifest* manifest) {
    *manifest->mutable_job_spec() = plan_->spec();
    manifest->set_job_yaml(plan_->job().yaml);
    if (best_ != nullptr) best_->Complete(manifest);
    *manifest->mutable_train_data() = plan_->train_data();
    if (plan_->validation_records() > 0)
      *manifest->mutable_validation_data() = plan_->validation_data();
  };
  options.on_committed = [this](const v1::Manifest& manifest) {
    if (best_ != nullptr) best_->Committed(manifest);
  };
  COHORT_ASSIGN_OR_RETURN(auto coordinator, ClusterCoordinator::Start(options));
  cluster_ = coordinator.get();
  {
    MutexLock lock(&mu_);
    coordinator_ = std::move(coordinator);
  }
  const BuiltModel& model = plan_->model();
  COHORT_ASSIGN_OR_RETURN(train_, cluster_->RegisterStep(model.train));
  COHORT_ASSIGN_OR_RETURN(eval_, cluster_->RegisterStep(model.eval));
  DatasetOptions data{.name = "train",
                      .batch_size = spec.data().batch_size(),
                      .features = model.features,
                      .exactly_once = plan_->exactly_once(),
                      .seed = spec.seed(),
                      .data = &plan_->train_data()};
  COHORT_ASSIGN_OR_RETURN(train_data_, cluster_->CreatePerWorkerDataset(spec.data().train(), data));
  if (plan_->validation_records() > 0) {
    data.name = "validation";
    data.exactly_once = true;
    data.data = &plan_->validation_data();
    COHORT_ASSIGN_OR_RETURN(validation_data_,
                            cluster_->CreatePerWorkerDataset(spec.data().validation(), data));
  }
  Do("restoring the newest checkpoint in " + checkpoint_dir_);
  COHORT_RETURN_IF_ERROR(cluster_->CreateVariables(model.variables, model.optimizer,
                                                   spec.strategy().partitioner(),
                                                   spec.strategy().placement()));
  unfinished_ = cluster_->Unfinished();
  next_unfinished_ = 0;
  FindBestAgain();
  Do("taking the first checkpoint");
  return TakeFirstCut();
}

// So that a lost ps has a state to go back to, and a directory that cannot be written is found now.
absl::Status JobRunner::TakeFirstCut() {
  const CoordinatorState state = cluster_->state();
  steps_at_checkpoint_ = steps_at_report_ = steps_at_progress_ = state.steps;
  time_of_checkpoint_ = time_of_report_ = time_of_progress_ = options_.clock->Now();
  COHORT_ASSIGN_OR_RETURN(const auto entries, ListCheckpoints(checkpoint_dir_));
  continued_ = !entries.empty();
  if (continued_) {
    const uint64_t all = plan_->epochs() * plan_->steps_per_epoch();
    Say(state.epoch > plan_->epochs() || state.steps > all
            ? fmt::format("{} has done {} steps, more than the {} that it is asked for now: it is "
                          "finished",
                          plan_->spec().name(), state.steps, all)
            : fmt::format("continuing {} at step {} of {}", plan_->spec().name(), state.steps,
                          all));
    return absl::OkStatus();
  }
  while (true) {
    const absl::Status status = MustCheckpoint(/*finished=*/false);
    if (status.ok()) return status;
    COHORT_RETURN_IF_ERROR(Annotate(Recover(status), "the first checkpoint"));
  }
}

absl::Status JobRunner::MustCheckpoint(bool finished) {
  const absl::Status status = cluster_->Checkpoint(finished);
  if (status.ok()) return status;
  // It may be for a server that is lost, which is raised here.
  const absl::Status raised = cluster_->Join();
  // A server that lacks memory must not look like a disk that lacks room.
  return raised.ok() ? TempFailIfDiskFull(status) : raised;
}

absl::Status JobRunner::TrainAll() {
  CoordinatorState state = cluster_->state();
  bool evaluate_again = LacksValidation(state);
  while (state.epoch < plan_->epochs() || evaluate_again) {
    const absl::Status status = evaluate_again ? EvaluateAgain(state.epoch) : OneEpoch(state.epoch);
    if (!status.ok()) COHORT_RETURN_IF_ERROR(Recover(status));
    state = cluster_->state();
    evaluate_again = !status.ok() && LacksValidation(state);
  }
  return absl::OkStatus();
}

bool JobRunner::LacksValidation(const CoordinatorState& state) const {
  return state.epoch > validated_epochs_ && unfinished_.empty() &&
         state.next_place == state.epoch * plan_->steps_per_epoch();
}

absl::Status JobRunner::OneEpoch(uint64_t epoch) {
  COHORT_RETURN_IF_ERROR(TrainEpoch(epoch));
  COHORT_RETURN_IF_ERROR(CloseEpoch(epoch));
  // With keep_best the epoch's checkpoint comes behind its validation, which says in the manifest
  // what it found: one that came before would have to be written a second time. Nothing trains in
  // between.
  const bool behind = best_ != nullptr && Validates(epoch + 1);
  if (!behind) COHORT_RETURN_IF_ERROR(CheckpointEpoch(epoch + 1));
  COHORT_RETURN_IF_ERROR(Evaluate(epoch + 1));
  return behind ? CheckpointEpoch(epoch + 1) : absl::OkStatus();
}

absl::Status JobRunner::EvaluateAgain(uint64_t epoch) {
  COHORT_RETURN_IF_ERROR(Evaluate(epoch));
  return best_ != nullptr && Validates(epoch) ? CheckpointEpoch(epoch) : absl::OkStatus();
}

absl::Status JobRunner::ScheduleAt(uint64_t place, uint32_t steps) {
  ClosureRequest request{.step = train_,
                         .dataset = train_data_,
                         .leases = plan_->LeasesAt(place, steps),
                         .steps = steps,
                         .place = JobPlace{place, plan_->EpochEndOf(place)}};
  return cluster_->Schedule(std::move(request)).status();
}

// What a restart or a restore left first, then places in order.
absl::Status JobRunner::ScheduleMore(uint64_t end) {
  CoordinatorState state = cluster_->state();
  uint64_t room = state.queued < kWindow ? kWindow - state.queued : 0;
  for (; room > 0 && next_unfinished_ < unfinished_.size(); --room) {
    const UnfinishedPlace& next = unfinished_[next_unfinished_++];
    COHORT_RETURN_IF_ERROR(ScheduleAt(next.place, next.steps));
  }
  for (uint64_t place = state.next_place; room > 0 && place < end; --room) {
    const uint32_t steps = plan_->StepsAt(place);
    COHORT_RETURN_IF_ERROR(ScheduleAt(place, steps));
    place += steps;
  }
  return absl::OkStatus();
}

absl::Status JobRunner::TrainEpoch(uint64_t epoch) {
  const TimePoint began = options_.clock->Now();
  const CoordinatorState before = cluster_->state();
  const int64_t fsyncs_before = FsyncCount();
  const uint64_t end = (epoch + 1) * plan_->steps_per_epoch();
  absl::Status status;
  while (status.ok()) {
    status = ScheduleMore(end);
    if (!status.ok()) break;
    const absl::StatusOr<bool> idle = cluster_->JoinFor(0.05);
    status = idle.status();
    if (!status.ok()) break;
    const CoordinatorState state = cluster_->state();
    CheckpointWhenDue(state);
    WarnWhenNotFinite(state);
    TellProgress(state, epoch, "");
    if (*idle && next_unfinished_ == unfinished_.size() && state.next_place >= end) break;
  }
  const CoordinatorState after = cluster_->state();
  const double seconds = ToSeconds(options_.clock->Now() - began);
  report_.training_seconds += seconds;
  report_.fsyncs += FsyncCount() - fsyncs_before;
  report_.checkpoints += after.cuts - before.cuts;
  const uint64_t steps = after.steps > before.steps ? after.steps - before.steps : 0;
  report_.steps += steps;
  if (seconds > 0 && steps > 0) steps_per_second_ = static_cast<double>(steps) / seconds;
  return status;
}

absl::Status JobRunner::CloseEpoch(uint64_t epoch) {
  const CoordinatorState state = cluster_->state();
  report_.training = state.metrics;
  COHORT_RETURN_IF_ERROR(cluster_->EndEpoch());
  MetricsRecord record{.set = "train", .kind = "epoch", .epoch = epoch + 1, .step = state.steps};
  for (const MetricTotal& metric : state.metrics) {
    record.metrics.emplace_back(metric.name, metric.mean());
  }
  record.steps_per_second = steps_per_second_;
  Report(std::move(record));
  TellProgress(state, epoch, "end");
  return absl::OkStatus();
}

absl::Status JobRunner::CheckpointEpoch(uint64_t epochs) {
  const uint64_t every = plan_->spec().checkpoint().every_epochs();
  const bool last = epochs >= plan_->epochs();  // the job's last checkpoint is taken at once
  const bool due = every > 0 && epochs % every == 0 && !HeldByCheckpoint(epochs);
  const bool best = std::exchange(best_due_, false);
  if (!(due || best) || last) return absl::OkStatus();
  const CoordinatorState state = cluster_->state();
  const absl::Status status = cluster_->Checkpoint();
  steps_at_checkpoint_ = state.steps;
  time_of_checkpoint_ = options_.clock->Now();
  TellBest();
  // One that failed was told and counted; training goes on. A server that is lost, and not only out
  // of sight for a moment, is raised there.
  return absl::IsCancelled(status) ? status : absl::OkStatus();
}

bool JobRunner::Validates(uint64_t epochs) const {
  const v1::JobSpec& spec = plan_->spec();
  const uint64_t every = std::max<uint64_t>(1, spec.fit().validation_every_epochs());
  const bool due = epochs % every == 0 || epochs >= plan_->epochs();
  return spec.evaluate().by_closures() && plan_->validation_records() > 0 && due;
}

absl::Status JobRunner::Evaluate(uint64_t epoch) {
  if (!Validates(epoch)) return absl::OkStatus();
  const TimePoint began = options_.clock->Now();
  std::vector<RemoteValue> values;
  for (const LeaseRange& batch : plan_->ValidationBatches()) {
    ClosureRequest request{
        .step = eval_, .dataset = validation_data_, .leases = {batch}, .training = false};
    COHORT_ASSIGN_OR_RETURN(RemoteValue value, cluster_->Schedule(std::move(request)));
    values.push_back(std::move(value));
  }
  COHORT_RETURN_IF_ERROR(cluster_->Join());
  COHORT_ASSIGN_OR_RETURN(const std::vector<StepResult> results, Fetch(values));
  report_.validation.clear();
  for (const StepResult& result : results) {
    for (const MetricTotal& metric : result.metrics) {
      auto found = std::find_if(report_.validation.begin(), report_.validation.end(),
                                [&](const MetricTotal& m) { return m.name == metric.name; });
      if (found == report_.validation.end()) {
        report_.validation.push_back(metric);
      } else {
        found->total += metric.total;
        found->count += metric.count;
      }
    }
  }
  MetricsRecord record{.set = "validation", .kind = "epoch", .epoch = epoch};
  record.step = cluster_->state().steps;
  record.seconds = ToSeconds(options_.clock->Now() - began);
  for (const MetricTotal& metric : report_.validation) {
    record.metrics.emplace_back(metric.name, metric.mean());
  }
  Say(fmt::format("epoch {}/{} validation, {}", epoch, plan_->epochs(),
                  FormatMetrics(record.metrics)));
  JudgeValidation(epoch);
  validated_epochs_ = epoch;
  Report(std::move(record));
  return absl::OkStatus();
}

// After an error of the cluster: back to the newest checkpoint where a server was lost, else the
// end.
absl::Status JobRunner::Recover(const absl::Status& error) {
  const auto info = GetFailure(error);
  if (!info.has_value() || info->role != "ps" || !info->retryable) return error;
  Say(fmt::format("ps:{} was lost: going back to the newest checkpoint ({})", info->index,
                  std::string(error.message())));
  // What else has been raised meanwhile is of the same loss.
  const absl::Status more = cluster_->Join();
  if (absl::IsCancelled(more)) return more;
  Do("restoring the newest checkpoint in " + checkpoint_dir_);
  COHORT_RETURN_IF_ERROR(cluster_->Restore());
  FindBestAgain();
  Do("training");
  ++report_.restores;
  unfinished_ = cluster_->Unfinished();
  next_unfinished_ = 0;
  const CoordinatorState state = cluster_->state();
  validated_epochs_ = std::min(validated_epochs_, state.epoch);
  steps_at_checkpoint_ = steps_at_report_ = steps_at_progress_ = state.steps;
  time_of_checkpoint_ = options_.clock->Now();
  Say(fmt::format("restored: going on at step {}", state.steps));
  return absl::OkStatus();
}

absl::Status JobRunner::End() {
  while (true) {
    const absl::Status status = MustCheckpoint(/*finished=*/true);
    if (status.ok()) break;
    COHORT_RETURN_IF_ERROR(Annotate(Recover(status), "the last checkpoint"));
    COHORT_RETURN_IF_ERROR(TrainAll());
  }
  COHORT_RETURN_IF_ERROR(FillReport());
  const absl::Status told = cluster_->Shutdown("the job is finished", /*job_finished=*/true);
  // Interrupted: whoever did it ends the tasks too. The job is finished all the same.
  return absl::IsCancelled(told) ? absl::OkStatus() : told;
}

absl::Status JobRunner::FillReport() {
  TellBest();
  report_.checkpoint = cluster_->newest_checkpoint();
  report_.shard_plan = ShardPlan(*cluster_);
  report_.state = cluster_->state();
  report_.steps_per_closure = std::max(1U, plan_->spec().fit().steps_per_execution());
  report_.pull_ahead = plan_->spec().strategy().pull_ahead();
  const bool launch_known = !continued_ && options_.launched != TimePoint();
  if (launch_known && report_.state.first_closure.has_value()) {
    report_.first_step_seconds = ToSeconds(*report_.state.first_closure - options_.launched);
  }
  COHORT_ASSIGN_OR_RETURN(const v1::Manifest manifest,
                          ReadManifest(JoinPath(report_.checkpoint, kManifestName)));
  for (const v1::TabletCut& tablet : manifest.tablets()) {
    ++report_.tablets;
    report_.updates += tablet.version();
  }
  return absl::OkStatus();
}

}  // namespace cohort
