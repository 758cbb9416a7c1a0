#include "tests/simulator/simulated_cluster.h"

#include <utility>

#include "chief/api/core_conversion.h"
#include "common/base/status.h"

namespace cohort::simulator {
namespace {

constexpr int64_t kTaskTimeoutUs = 10'000'000;
constexpr int64_t kCallTimeoutUs = 3 * kTaskTimeoutUs;

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
  if (!in_time) return DeadlineExceeded("waiting for {}; {}", what, core_->WaitingFor());
  return absl::OkStatus();
}

absl::Status SimulatedCluster::WaitUntilReady() {
  return Await([this] { return core_->phase() == CoordinatorCore::Phase::kReady; }, kTaskTimeoutUs,
               "the tasks");
}

absl::Status SimulatedCluster::CreateVariables(v1::Layout layout) {
  core_->SetLayout(std::move(layout), 1);
  if (!core_->CanResume()) return Restore();
  ++cluster_->ledger.statistics.resumed;
  const uint64_t timeline = core_->timeline();
  const std::string began_from = core_->began_from();
  core_->Resume();
  newest_ = DirectoryOf(cluster_->disk.NewestOf(timeline).value_or(began_from));
  return absl::OkStatus();
}

absl::Status SimulatedCluster::Restore() {
  const int64_t deadline = cluster_->world->now_us() + kTaskTimeoutUs;
  while (true) {
    COHORT_RETURN_IF_ERROR(Await([this] { return core_->all_ps_there(); },
                                 deadline - cluster_->world->now_us(), "the servers"));
    const absl::Status status = RollBackOnce();
    const bool again = NamesLostServer(status) && cluster_->world->now_us() < deadline;
    if (status.ok() || !again) return status;
  }
}

absl::Status SimulatedCluster::RollBackOnce() {
  core_->DropCut();
  const std::string newest = cluster_->disk.Newest();
  std::optional<v1::Manifest> manifest;
  if (!newest.empty()) manifest = *cluster_->disk.Manifest(newest);
  rollback_done_.reset();
  COHORT_RETURN_IF_ERROR(core_->RollBack(manifest.has_value() ? &*manifest : nullptr, newest));
  COHORT_RETURN_IF_ERROR(
      Await([this] { return rollback_done_.has_value(); }, kCallTimeoutUs, "the rollback"));
  cluster_->world->Trace("chief: rolled back to {}: timeline {}, {}", newest, core_->timeline(),
                         rollback_done_->ToString());
  if (rollback_done_->ok() && !newest.empty()) newest_ = DirectoryOf(newest);
  return *rollback_done_;
}

absl::StatusOr<RemoteValue> SimulatedCluster::Schedule(ClosureRequest request) {
  ClosureSpec spec = ClosureSpecOf(request);
  COHORT_RETURN_IF_ERROR(Await([&] { return !core_->error_pending() && core_->has_room(spec); },
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

absl::StatusOr<bool> SimulatedCluster::JoinFor(double seconds) {
  const bool idle = wait_->For([this] { return Failed() || core_->idle(); },
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
      Await([this] { return !core_->cut_active(); }, kCallTimeoutUs, "the cut before"));
  COHORT_ASSIGN_OR_RETURN(const uint64_t cut, core_->StartCut(finished));
  COHORT_RETURN_IF_ERROR(
      Await([&] { return cuts_done_.contains(cut); }, kCallTimeoutUs, "the cut"));
  return cuts_done_[cut];
}

absl::Status SimulatedCluster::StartCheckpoint() {
  return core_->cut_active() ? absl::OkStatus() : core_->StartCut(/*finished=*/false).status();
}

std::vector<UnfinishedPlace> SimulatedCluster::Unfinished() const {
  return UnfinishedPlacesOf(*core_);
}

// Checks that every closure was folded once.
void SimulatedCluster::CheckEpoch() const {
  const Plan& plan = cluster_->plan;
  const uint64_t epoch = core_->epoch();
  const auto& metrics = core_->settlement().metrics();
  const auto found = metrics.find(kExamplesMetric);
  const double examples = found == metrics.end() ? 0 : found->second.Scalar(kTotal);
  if (examples != static_cast<double>(plan.examples)) {
    cluster_->ledger.Violate("epoch {} folded metrics of {} examples, not {}", epoch, examples,
                             plan.examples);
  }
  const auto used = metrics.find(kUsedMetric);
  const std::vector<double> once(plan.examples, 1);
  if (used == metrics.end() || used->second.accumulators.at(0).values != once) {
    cluster_->ledger.Violate("epoch {} did not fold each example once", epoch);
  }
  const uint64_t steps = (epoch + 1) * plan.Schedule().steps_per_epoch;
  if (core_->settlement().steps() != steps) {
    cluster_->ledger.Violate("after epoch {} {} steps are finished, not {}", epoch,
                             core_->settlement().steps(), steps);
  }
}

absl::Status SimulatedCluster::EndEpoch() {
  CheckEpoch();
  return core_->EndEpoch();
}

absl::Status SimulatedCluster::Shutdown(const std::string& reason, bool job_finished) {
  core_->Stop(reason, job_finished);
  return Await([this] { return core_->phase() == CoordinatorCore::Phase::kStopped; },
               kCallTimeoutUs, "the end of the journal");
}

CoordinatorState SimulatedCluster::state() const { return StateOf(*core_); }

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
