// The walk of the job runner (chief/job/job_runner.cc, chief/api/coordinator_start.cc) as a client of the
// core: start, resume or restore, epochs of leases, cuts in between, the last checkpoint, the end.
// It runs on a fiber and waits where the real one does.
#include <algorithm>

#include "common/base/status.h"
#include "common/graph/program_proto.h"
#include "tests/simulator/chief_life.h"

namespace cohort::simulator {
namespace {

constexpr int64_t kTaskTimeoutUs = 10'000'000;

v1::Program Proto(const Program& program) {
  v1::Program proto;
  ProgramToProto(program, &proto);
  return proto;
}

bool NamesLostPs(const absl::Status& status) {
  const auto info = GetFailure(status);
  return info.has_value() && info->role == "ps" && info->retryable;
}

}  // namespace

void ChiefLife::Walk() {
  const absl::Status status = RunJob();
  world_->Trace("chief: the walk ends: {}", status.ToString());
  if (status.ok()) {
    cluster_->finished = true;
    node_->Retire();
  } else {
    ++cluster_->ledger.statistics.chiefs_gave_up;
  }
  node_->Exit();
}

absl::Status ChiefLife::WaitFor(const std::function<bool()>& condition, int64_t timeout_us,
                                const char* what) {
  if (condition()) return absl::OkStatus();
  const uint64_t number = ++waits_;
  node_->After(timeout_us, [this, number] {
    if (number != waits_ || condition_ == nullptr) return;
    condition_ = nullptr;
    walk_->Resume();
  });
  condition_ = &condition;
  waits_for_ = what;
  Fiber::Suspend();
  condition_ = nullptr;
  ++waits_;
  if (condition()) return absl::OkStatus();
  return DeadlineExceeded("waiting for {}; {}", what, core_->WaitingFor());
}

absl::Status ChiefLife::RunJob() {
  const std::string newest = cluster_->disk.Newest();
  if (!newest.empty() && cluster_->disk.Manifest(newest)->finished()) return absl::OkStatus();
  COHORT_RETURN_IF_ERROR(StartCluster());
  COHORT_RETURN_IF_ERROR(TrainAll());
  return End();
}

absl::Status ChiefLife::StartCluster() {
  const Plan& plan = cluster_->plan;
  core_->Tick(world_->now_us());
  Tick();
  for (int i = 0; i < plan.ps; ++i) Dial(PsTask(i));
  for (int i = 0; i < plan.workers; ++i) Dial(WorkerTask(i));
  COHORT_RETURN_IF_ERROR(
      WaitFor([this] { return Failed() || core_->phase() == CoordinatorCore::Phase::kReady; },
              kTaskTimeoutUs, "the tasks"));
  if (Failed()) return core_->TakeError();
  const Program train = TrainProgram(plan);
  const Program eval = EvalProgram(plan);
  train_ = core_->AddProgram(Fingerprint(train), Proto(train));
  eval_ = core_->AddProgram(Fingerprint(eval), Proto(eval));
  data_ = core_->AddResource(plan.Dataset());
  core_->SetLayout(plan.Layout(), 1);
  if (core_->CanResume()) {
    ++cluster_->ledger.statistics.resumed;
    core_->Resume();
  } else {
    COHORT_RETURN_IF_ERROR(Restore());
  }
  unfinished_ = core_->Unfinished();
  next_unfinished_ = 0;
  next_cut_us_ = world_->now_us() + static_cast<int64_t>(plan.cut_every_us);
  world_->Trace("chief: serves timeline {}, {} of {} steps done", core_->timeline(),
                core_->settlement().steps(), plan.places());
  while (cluster_->disk.Newest().empty()) {
    const absl::Status status = MustCheckpoint(/*finished=*/false);
    if (status.ok()) break;
    COHORT_RETURN_IF_ERROR(Annotate(Recover(status), "the first checkpoint"));
  }
  return absl::OkStatus();
}

absl::Status ChiefLife::MustCheckpoint(bool finished) {
  const absl::Status status = Checkpoint(finished);
  if (status.ok()) return status;
  // It may be for a server that is lost, which is raised here.
  for (bool idle = false; !idle;) COHORT_RETURN_IF_ERROR(JoinFor(1'000'000, &idle));
  return status;
}

absl::Status ChiefLife::Restore() {
  const int64_t deadline = world_->now_us() + kTaskTimeoutUs;
  while (true) {
    COHORT_RETURN_IF_ERROR(WaitFor([this] { return Failed() || core_->all_ps_there(); },
                                   deadline - world_->now_us(), "the servers"));
    if (Failed()) return core_->TakeError();
    const absl::Status status = RollBackOnce();
    if (status.ok() || !NamesLostPs(status) || world_->now_us() >= deadline) return status;
  }
}

absl::Status ChiefLife::RollBackOnce() {
  const std::string newest = cluster_->disk.Newest();
  std::optional<v1::Manifest> manifest;
  if (!newest.empty()) manifest = *cluster_->disk.Manifest(newest);
  rollback_done_.reset();
  COHORT_RETURN_IF_ERROR(core_->RollBack(manifest.has_value() ? &*manifest : nullptr, newest));
  COHORT_RETURN_IF_ERROR(WaitFor([this] { return Failed() || rollback_done_.has_value(); },
                                 3 * kTaskTimeoutUs, "the rollback"));
  if (Failed()) return core_->TakeError();
  world_->Trace("chief: rolled back to {}: timeline {}, {}", newest, core_->timeline(),
                rollback_done_->ToString());
  return *rollback_done_;
}

absl::Status ChiefLife::Checkpoint(bool finished) {
  COHORT_RETURN_IF_ERROR(WaitFor([this] { return Failed() || !core_->cut_active(); },
                                 3 * kTaskTimeoutUs, "the cut before"));
  COHORT_ASSIGN_OR_RETURN(const uint64_t cut, core_->StartCut(finished));
  COHORT_RETURN_IF_ERROR(
      WaitFor([&] { return Failed() || cuts_done_.contains(cut); }, 3 * kTaskTimeoutUs, "the cut"));
  if (Failed()) return core_->TakeError();
  return cuts_done_[cut];
}

// ------------------------------------------------------------------ epochs

absl::Status ChiefLife::TrainAll() {
  while (core_->epoch() < cluster_->plan.epochs) {
    const uint64_t epoch = core_->epoch();
    absl::Status status = TrainEpoch(epoch);
    if (status.ok()) status = CloseEpoch(epoch);
    if (status.ok()) status = Evaluate();
    if (!status.ok()) COHORT_RETURN_IF_ERROR(Recover(status));
  }
  return absl::OkStatus();
}

absl::Status ChiefLife::TrainEpoch(uint64_t epoch) {
  const Plan& plan = cluster_->plan;
  const uint64_t end = (epoch + 1) * plan.steps_per_epoch();
  while (true) {
    COHORT_RETURN_IF_ERROR(ScheduleMore(end));
    bool idle = false;
    COHORT_RETURN_IF_ERROR(JoinFor(10'000, &idle));
    if (plan.cut_every_us > 0 && world_->now_us() >= next_cut_us_ && !core_->cut_active()) {
      (void)core_->StartCut(/*finished=*/false);
      next_cut_us_ = world_->now_us() + static_cast<int64_t>(plan.cut_every_us);
    }
    if (idle && next_unfinished_ == unfinished_.size() && core_->next_place() >= end) {
      return absl::OkStatus();
    }
  }
}

absl::Status ChiefLife::ScheduleMore(uint64_t end) {
  const Plan& plan = cluster_->plan;
  uint64_t room = core_->queued() < plan.window ? plan.window - core_->queued() : 0;
  for (; room > 0 && next_unfinished_ < unfinished_.size(); --room) {
    const UnfinishedClosure& next = unfinished_[next_unfinished_++];
    COHORT_RETURN_IF_ERROR(ScheduleAt(next.place, next.steps));
  }
  for (uint64_t place = core_->next_place(); room > 0 && place < end; --room) {
    const uint32_t steps = plan.StepsAt(place);
    COHORT_RETURN_IF_ERROR(ScheduleAt(place, steps));
    place += steps;
  }
  return absl::OkStatus();
}

absl::Status ChiefLife::ScheduleAt(uint64_t place, uint32_t steps) {
  ClosureSpec spec{.program = train_, .resource = data_, .steps = steps};
  for (uint32_t i = 0; i < steps; ++i) spec.leases.push_back(cluster_->plan.LeaseAt(place + i));
  spec.by_job = true;
  spec.place = place;
  spec.places_end = cluster_->plan.EpochEnd(place);
  return Schedule(std::move(spec)).status();
}

absl::StatusOr<uint64_t> ChiefLife::Schedule(ClosureSpec spec) {
  COHORT_RETURN_IF_ERROR(
      WaitFor([this] { return Failed() || (!core_->error_pending() && !core_->queue_full()); },
              3 * kTaskTimeoutUs, "room in the queue"));
  return core_->Schedule(std::move(spec));
}

absl::Status ChiefLife::JoinFor(int64_t us, bool* idle) {
  const absl::Status waited = WaitFor([this] { return Failed() || core_->idle(); }, us, "closures");
  *idle = waited.ok();
  return waited.ok() ? core_->TakeError() : absl::OkStatus();
}

absl::Status ChiefLife::CloseEpoch(uint64_t epoch) {
  const Plan& plan = cluster_->plan;
  // Every closure was folded once.
  const auto& metrics = core_->settlement().metrics();
  const auto found = metrics.find(kExamplesMetric);
  const double examples = found == metrics.end() ? 0 : found->second.total;
  if (examples != static_cast<double>(plan.examples)) {
    cluster_->ledger.Violate("epoch {} folded metrics of {} examples, not {}", epoch, examples,
                             plan.examples);
  }
  if (core_->settlement().steps() != (epoch + 1) * plan.steps_per_epoch()) {
    cluster_->ledger.Violate("after epoch {} {} steps are finished, not {}", epoch,
                             core_->settlement().steps(), (epoch + 1) * plan.steps_per_epoch());
  }
  COHORT_RETURN_IF_ERROR(core_->EndEpoch());
  if (epoch + 1 == plan.epochs) return absl::OkStatus();
  // One that failed was told and counted; training goes on. A server that is lost, and not only out
  // of sight for a moment, is raised there.
  (void)Checkpoint(/*finished=*/false);
  return Failed() ? core_->TakeError() : absl::OkStatus();
}

absl::Status ChiefLife::Evaluate() {
  for (uint64_t i = 0; i < cluster_->plan.evaluate_closures; ++i) {
    ClosureSpec spec{.program = eval_, .resource = data_, .training = false};
    spec.leases.push_back(cluster_->plan.LeaseAt(i % cluster_->plan.steps_per_epoch()));
    COHORT_RETURN_IF_ERROR(Schedule(std::move(spec)).status());
  }
  bool idle = false;
  while (!idle) COHORT_RETURN_IF_ERROR(JoinFor(1'000'000, &idle));
  return absl::OkStatus();
}

// After a lost server: back to the newest checkpoint. Any other error ends the process.
absl::Status ChiefLife::Recover(const absl::Status& error) {
  if (!NamesLostPs(error)) return error;
  bool idle = false;
  while (!idle) (void)JoinFor(1'000'000, &idle);  // what else was raised is of the same loss
  COHORT_RETURN_IF_ERROR(Restore());
  unfinished_ = core_->Unfinished();
  next_unfinished_ = 0;
  return absl::OkStatus();
}

absl::Status ChiefLife::End() {
  while (true) {
    const absl::Status status = MustCheckpoint(/*finished=*/true);
    if (status.ok()) break;
    COHORT_RETURN_IF_ERROR(Annotate(Recover(status), "the last checkpoint"));
    COHORT_RETURN_IF_ERROR(TrainAll());
  }
  core_->Stop("the job is finished", /*job_finished=*/true);
  COHORT_RETURN_IF_ERROR(
      WaitFor([this] { return Failed() || core_->phase() == CoordinatorCore::Phase::kStopped; },
              3 * kTaskTimeoutUs, "the end of the journal"));
  return Failed() ? core_->TakeError() : absl::OkStatus();
}

}  // namespace cohort::simulator
