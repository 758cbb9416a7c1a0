#include "tests/simulator/simulated_cluster.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/metrics/metric_proto.h"

namespace cohort::simulator {
namespace {

constexpr size_t kMostEvaluations = 4;  // at once, beside the training
constexpr int64_t kTaskTimeoutUs = 10'000'000;
constexpr int64_t kCallTimeoutUs = 3 * kTaskTimeoutUs;
constexpr int64_t kChangeTimeoutUs = 2 * kCallTimeoutUs;

bool NamesLostServer(const absl::Status& status) {
  const auto info = GetFailure(status);
  return info.has_value() && info->role == "ps" && info->retryable;
}

std::string DirectoryOf(const std::string& manifest) {
  return manifest.substr(0, manifest.find_last_of('/'));
}

}  // namespace

// ------------------------------------------------------------------ FiberWait

bool FiberWait::For(const std::function<bool()>& condition, int64_t timeout_us, const char* what) {
  if (condition()) return true;
  const uint64_t number = ++number_;
  node_->After(timeout_us, [this, number] {
    if (number != number_ || condition_ == nullptr) return;
    condition_ = nullptr;
    fiber_->Resume();
  });
  condition_ = &condition;
  what_ = what;
  Fiber::Suspend();
  condition_ = nullptr;
  ++number_;
  return condition();
}

void FiberWait::Poll() {
  if (condition_ == nullptr || !(*condition_)()) return;
  condition_ = nullptr;
  fiber_->Resume();
}

// ------------------------------------------------------------------ SimulatedCluster

absl::Status SimulatedCluster::Await(const std::function<bool()>& condition, int64_t timeout_us,
                                     const char* what) {
  const bool in_time = wait_->For([&] { return Failed() || condition(); }, timeout_us, what);
  if (Failed()) return core_->TakeError();
  if (!in_time) return DeadlineExceeded("waiting for {}; {}", what, core_->view().WaitingFor());
  return absl::OkStatus();
}

absl::Status SimulatedCluster::WaitUntilReady() {
  return Await([this] { return core_->view().phase() == CoordinatorCore::Phase::kReady; },
               kTaskTimeoutUs, "the tasks");
}

absl::Status SimulatedCluster::CreateVariables(v1::Layout layout) {
  core_->SetLayout(std::move(layout), 1);
  if (!core_->view().variables.CanResume()) return Restore();
  ++cluster_->ledger.statistics.resumed;
  const uint64_t timeline = core_->view().timeline();
  const std::string began_from = core_->view().variables.began_from();
  core_->Resume();
  newest_ = DirectoryOf(cluster_->disk.NewestOf(timeline).value_or(began_from));
  return absl::OkStatus();
}

absl::Status SimulatedCluster::AwaitServers() {
  return Await([this] { return core_->view().all_ps_there() || core_->view().error_pending(); },
               kTaskTimeoutUs, "the servers");
}

absl::Status SimulatedCluster::Restore() {
  const int64_t deadline = cluster_->world->now_us() + kTaskTimeoutUs;
  while (true) {
    COHORT_RETURN_IF_ERROR(Await([this] { return core_->view().all_ps_there(); },
                                 deadline - cluster_->world->now_us(), "the servers"));
    const absl::Status status = RollBackOnce();
    const bool again = NamesLostServer(status) && cluster_->world->now_us() < deadline;
    if (status.ok() || !again) return status;
  }
}

absl::Status SimulatedCluster::RollBackOnce() {
  core_->DropCut();
  evaluations_.clear();
  const std::string newest = cluster_->disk.Newest();
  std::optional<v1::Manifest> manifest;
  if (!newest.empty()) manifest = *cluster_->disk.Manifest(newest);
  rollback_done_.reset();
  COHORT_RETURN_IF_ERROR(core_->RollBack(manifest.has_value() ? &*manifest : nullptr, newest));
  COHORT_RETURN_IF_ERROR(
      Await([this] { return rollback_done_.has_value(); }, kCallTimeoutUs, "the rollback"));
  cluster_->world->Trace("chief: rolled back to {}: timeline {}, {}", newest,
                         core_->view().timeline(), rollback_done_->ToString());
  if (rollback_done_->ok() && !newest.empty()) newest_ = DirectoryOf(newest);
  return *rollback_done_;
}

absl::StatusOr<RemoteValue> SimulatedCluster::Schedule(ClosureSpec spec) {
  COHORT_RETURN_IF_ERROR(
      Await([&] { return !core_->view().error_pending() && core_->view().has_room(spec); },
            kCallTimeoutUs, "room in the queue"));
  auto [token, value] = results_.New();
  spec.token = token;
  const absl::StatusOr<uint64_t> id = core_->Schedule(std::move(spec));
  if (id.ok()) return std::move(value);
  results_.Forget(token);
  return id.status();
}

absl::Status SimulatedCluster::Join() {
  while (true) {
    COHORT_ASSIGN_OR_RETURN(const bool idle, JoinFor(1));
    if (idle) return absl::OkStatus();
  }
}

void SimulatedCluster::CheckResult(const v1::ClosureResult& result) {
  if (!core_->view().steps.sync()) return;
  const auto beside = evaluations_.find(result.id());
  if (beside != evaluations_.end()) {
    const uint64_t place = core_->view().steps.open().begin().next_place();
    if (place > beside->second) {
      cluster_->ledger.Violate("evaluation closure {} ended at place {}, not before {}",
                               result.id(), place, beside->second);
    }
    evaluations_.erase(beside);
  }
  // Closures that do not train may begin in one mode and end in another.
  const bool trains =
      std::any_of(result.metrics().begin(), result.metrics().end(),
                  [](const v1::MetricValue& value) { return value.name() == kExamplesMetric; });
  if (cluster_->plan.changes_mode() && !trains) return;
  for (const v1::MetricValue& value : result.metrics()) {
    if (value.name() != kSpreadMetric) continue;
    const double spread = MetricFromProto(value).Scalar(kTotal);
    if (spread != 0) {
      cluster_->ledger.Violate("closure {} saw weights of different steps, {} apart", result.id(),
                               spread);
    }
  }
}

void SimulatedCluster::MaybeEvaluate() {
  const Plan& plan = cluster_->plan;
  if (!plan.evaluates || eval_program_ < 0 || !cluster_->world->chance.Percent(25)) return;
  const JobSchedule schedule = plan.Schedule();
  const ClosureSpec spec{
      .step = {.program = eval_program_},
      .dataset = {.resource = eval_resource_},
      .leases = schedule.LeasesAt(cluster_->world->chance.Below(schedule.steps()), 1),
      .training = false};
  const bool may =
      core_->view().served() && !core_->view().error_pending() && core_->view().has_room(spec);
  // None at the end of an epoch, which would never come.
  const bool ends = core_->view().scheduler.next_place() % schedule.steps_per_epoch == 0;
  if (!may || ends || evaluations_.size() >= kMostEvaluations) return;
  const absl::StatusOr<uint64_t> id = core_->Schedule(spec);
  if (!id.ok()) return;
  ++cluster_->ledger.statistics.evaluations;
  evaluations_[*id] = core_->view().scheduler.next_place() + plan.core.closures_per_step;
}

absl::StatusOr<bool> SimulatedCluster::JoinFor(double seconds) {
  MaybeEvaluate();
  const bool idle = wait_->For([this] { return Failed() || core_->view().idle(); },
                               MicrosFromSeconds(seconds), "closures");
  if (!idle) return false;
  COHORT_RETURN_IF_ERROR(core_->TakeError());
  return true;
}

void SimulatedCluster::OnCutDone(uint64_t cut, const absl::Status& status) {
  cuts_done_[cut] = status;
  Statistics& statistics = cluster_->ledger.statistics;
  ++(status.ok() ? statistics.cuts : statistics.cut_failures);
  cluster_->world->Trace("chief: cut {}: {}", cut, status.ToString());
}

absl::Status SimulatedCluster::Checkpoint(bool finished) {
  COHORT_RETURN_IF_ERROR(
      Await([this] { return !core_->view().cut.active(); }, kCallTimeoutUs, "the cut before"));
  COHORT_ASSIGN_OR_RETURN(const uint64_t cut, core_->StartCut(finished));
  COHORT_RETURN_IF_ERROR(
      Await([&] { return cuts_done_.contains(cut); }, kCallTimeoutUs, "the cut"));
  return cuts_done_[cut];
}

absl::Status SimulatedCluster::StartCheckpoint() {
  return core_->view().cut.active() ? absl::OkStatus()
                                    : core_->StartCut(/*finished=*/false).status();
}

absl::Status SimulatedCluster::SetMode(const ModeSettings& settings) {
  COHORT_RETURN_IF_ERROR(core_->SetMode(settings));
  const auto changed = [this] { return Failed() || !core_->view().steps.mode().changing(); };
  if (!user_wait_->For(changed, kChangeTimeoutUs, "the change of the mode")) {
    return DeadlineExceeded("waiting for the mode to change; {}", core_->view().WaitingFor());
  }
  if (Failed()) return core_->TakeError();
  return core_->view().steps.mode().settings() == settings
             ? absl::OkStatus()
             : Aborted("a rollback has undone the change");
}

std::vector<UnfinishedClosure> SimulatedCluster::Unfinished() const {
  return core_->view().Unfinished();
}

// Checks that every closure was folded once.
void SimulatedCluster::CheckEpoch() const {
  const Plan& plan = cluster_->plan;
  const uint64_t epoch = core_->view().settlement.epoch();
  const auto& metrics = core_->view().settlement.metrics();
  const auto found = metrics.find(kExamplesMetric);
  const double examples = found == metrics.end() ? 0 : found->second.Scalar(kTotal);
  // Closures that were dropped, and those whose results were lost, count without metrics.
  const CoreCounters counters = core_->view().counters();
  const Statistics& before = cluster_->ledger.statistics;
  const uint64_t without =
      counters.dropped + counters.lost_results + before.dropped_closures + before.lost_results;
  const double most_missing = static_cast<double>(without * plan.batch);
  const double missing = static_cast<double>(plan.examples) - examples;
  if (missing < 0 || missing > most_missing) {
    cluster_->ledger.Violate("epoch {} folded metrics of {} examples, not {}", epoch, examples,
                             plan.examples);
  }
  const auto used = metrics.find(kUsedMetric);
  const std::vector<double> none(plan.examples, 0);
  const std::vector<double>& times =
      used == metrics.end() ? none : used->second.accumulators.at(0).values;
  const auto not_once = static_cast<double>(
      std::count_if(times.begin(), times.end(), [](double n) { return n != 1; }));
  const bool twice = std::any_of(times.begin(), times.end(), [](double n) { return n > 1; });
  if (twice || not_once != missing) {
    cluster_->ledger.Violate("epoch {} did not fold each example once", epoch);
  }
  const uint64_t steps = (epoch + 1) * plan.Schedule().steps_per_epoch;
  if (core_->view().settlement.steps() != steps) {
    cluster_->ledger.Violate("after epoch {} {} steps are finished, not {}", epoch,
                             core_->view().settlement.steps(), steps);
  }
}

absl::Status SimulatedCluster::SetLearningRate(double rate, bool by_user) {
  COHORT_RETURN_IF_ERROR(core_->SetLearningRate(rate, by_user));
  return Await(
      [this] { return !core_->view().steps.rates().changing() || !core_->view().served(); },
      kChangeTimeoutUs, "the change of the learning rate");
}

absl::Status SimulatedCluster::EndEpoch(const v1::EpochRecord* record) {
  CheckEpoch();
  return core_->EndEpoch(record);
}

absl::Status SimulatedCluster::Shutdown(const std::string& reason, bool job_finished) {
  core_->Stop(reason, job_finished);
  return Await([this] { return core_->view().phase() == CoordinatorCore::Phase::kStopped; },
               kCallTimeoutUs, "the end of the journal");
}

CoordinatorState SimulatedCluster::state() const { return {core_->view().State()}; }

// ------------------------------------------------------------------ DiskCatalog

absl::StatusOr<v1::Manifest> DiskCatalog::Read(const std::string& checkpoint) const {
  return disk_->Manifest(checkpoint + "/" + kManifestName);
}

absl::StatusOr<std::optional<v1::Manifest>> DiskCatalog::NewestManifest() const {
  const std::string newest = disk_->Newest();
  if (newest.empty()) return std::optional<v1::Manifest>();
  COHORT_ASSIGN_OR_RETURN(v1::Manifest manifest, disk_->Manifest(newest));
  return std::optional<v1::Manifest>(std::move(manifest));
}

absl::StatusOr<std::optional<v1::BestCheckpoint>> DiskCatalog::BestUpTo(
    const v1::Manifest& last, const BestRule&, const RefusedCallback& refused) const {
  if (!last.has_best()) return std::optional<v1::BestCheckpoint>();
  const std::string& name = last.best().checkpoint();
  if (!IsGone(name)) return std::optional<v1::BestCheckpoint>(last.best());
  refused(PathOf(name), NotFound("it does not exist"));
  return std::optional<v1::BestCheckpoint>();
}

bool DiskCatalog::IsGone(const std::string& name) const { return !Read(PathOf(name)).ok(); }

}  // namespace cohort::simulator
