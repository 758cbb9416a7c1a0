#include "chief/api/chief_checkpoints.h"

#include <utility>

#include "chief/api/coordinator.h"
#include "common/base/crash_point.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"

namespace cohort {

ChiefCheckpoints::ChiefCheckpoints(const CoordinatorOptions* options,
                                   const OwnedDirectory* directory, LockedCore* core,
                                   std::function<void(const absl::Status&)> on_lost)
    : options_(options),
      directory_(directory),
      core_(core),
      on_lost_(std::move(on_lost)),
      newest_since_(options->clock->Now()) {}

absl::StatusOr<std::string> ChiefCheckpoints::Take(bool finished) {
  MutexLock lock(core_->mu());
  COHORT_RETURN_IF_ERROR(AwaitBoundary());
  return TakeNow(finished);
}

absl::StatusOr<std::string> ChiefCheckpoints::TakeUnlessFinished() {
  MutexLock lock(core_->mu());
  COHORT_RETURN_IF_ERROR(AwaitBoundary());
  if (core_->get()->view().cut.finish_committed()) {
    return FailedPrecondition("the job is finished: {} is its last checkpoint", newest_);
  }
  return TakeNow(/*finished=*/false);
}

absl::Status ChiefCheckpoints::AwaitBoundary() {
  CoordinatorCore* const core = core_->get();
  const auto waiting_for = [core] { return core->view().WaitingForCut(); };
  const auto idle = [core] { return !core->view().cut.active(); };
  COHORT_RETURN_IF_ERROR(core_->Wait(idle, CallWaits::kForever, waiting_for).status());
  // Closures that a client has scheduled before belong to this checkpoint.
  core->AddWaiting(1);
  const auto whole = [core] { return !core->view().steps.open().has_client_step(); };
  const absl::Status closed = core_->Wait(whole, CallWaits::kForever).status();
  core->AddWaiting(-1);
  COHORT_RETURN_IF_ERROR(closed);
  return core_->failed() ? core->TakeError() : absl::OkStatus();
}

absl::StatusOr<std::string> ChiefCheckpoints::TakeNow(bool finished) {
  CoordinatorCore* const core = core_->get();
  const auto waiting_for = [core] { return core->view().WaitingForCut(); };
  COHORT_ASSIGN_OR_RETURN(const uint64_t cut, core->StartCut(finished));
  // Waits for the record of the job's last checkpoint, except on a full disk or after an interrupt:
  // a restart finds the checkpoint without the record.
  const auto done = [this, core, cut]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->mu()) {
    return cuts_done_.contains(cut) ||
           (core->view().cut.finish_committed() && core->view().journal.refused());
  };
  const absl::Status waited = core_->Wait(done, CallWaits::kForever, waiting_for).status();
  if (core_->failed()) return core->TakeError();
  if (core->view().cut.finish_committed() && !cuts_done_.contains(cut)) return newest_;
  COHORT_RETURN_IF_ERROR(waited);
  const CutResult& result = cuts_done_.at(cut);
  COHORT_RETURN_IF_ERROR(result.status);
  return result.path;
}

absl::Status ChiefCheckpoints::StartOne() {
  MutexLock lock(core_->mu());
  CoordinatorCore* const core = core_->get();
  if (core->view().cut.active()) return absl::OkStatus();
  return core->StartCut(/*finished=*/false).status();
}

std::string ChiefCheckpoints::newest() const {
  MutexLock lock(core_->mu());
  return newest_;
}

Duration ChiefCheckpoints::age() const {
  core_->mu()->AssertHeld();
  return options_->clock->Now() - newest_since_;
}

void ChiefCheckpoints::Write(v1::Manifest manifest) {
  disk_.Post([this, manifest = std::move(manifest)]() mutable { Commit(std::move(manifest)); });
}

void ChiefCheckpoints::Commit(v1::Manifest manifest) {
  if (const absl::Status lost = directory_->Check(); !lost.ok()) return on_lost_(lost);
  bool wanted = false;
  bool taken = false;
  core_->Input([&](CoordinatorCore* core) {
    wanted = core->view().cut.commits(manifest.cut());
    manifest.mutable_chief()->set_durable_record(core->view().journal.durable_record());
  });
  if (!wanted) return;  // slow storage has delayed earlier manifests until this cut was dropped
  manifest.set_unix_micros(static_cast<uint64_t>(options_->clock->UnixMicros()));
  manifest.set_cohort_version(std::string(CohortVersion()));
  if (options_->complete_manifest) options_->complete_manifest(&manifest);
  COHORT_CRASH_POINT("chief.cut.manifest_writing");
  const CheckpointId id = IdOf(manifest);
  const std::string directory = directory_->path() + "/" + id.ToString();
  const absl::Status status = CommitManifest(directory, manifest);
  core_->Input([&](CoordinatorCore* core) ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->mu()) {
    taken = core->OnManifestWritten(manifest.cut(), status, directory + "/" + kManifestName);
    if (!taken) return;
    SetNewest(directory);
    if (options_->on_committed) options_->on_committed(manifest);
  });
  if (taken) {
    const auto best = CheckpointId::Parse(manifest.best().checkpoint());
    retention_.Post([this, id, best] { DeleteOld(id, best); });
  } else if (status.ok()) {
    // It deletes nothing: the chief may already be restoring an older checkpoint.
    options_->log->Warning("checkpoint_late", {{"path", directory}});
  }
}

void ChiefCheckpoints::DeleteOld(const CheckpointId& newest,
                                 const std::optional<CheckpointId>& best) {
  const auto deleted = DeleteOldCheckpoints(directory_->path(),
                                            {.max_to_keep = options_->max_to_keep,
                                             .known_valid = newest,
                                             .best = best,
                                             .may_delete = [this] { return directory_->Check(); }});
  // The same failure after each checkpoint is logged once.
  if (!deleted.ok() && deleted.status() != retention_failure_) {
    options_->log->Failure(LogLevel::kWarning, "checkpoint_retention", deleted.status());
  }
  retention_failure_ = deleted.status();
}

void ChiefCheckpoints::DeleteFailed(const CheckpointId& failed) {
  const absl::Status deleted =
      DeleteUncommitted(directory_->path(), failed, [this] { return directory_->Check(); });
  if (!deleted.ok()) options_->log->Failure(LogLevel::kWarning, "checkpoint_retention", deleted);
}

void ChiefCheckpoints::OnCutDone(uint64_t cut, const absl::Status& status) {
  core_->mu()->AssertHeld();
  cuts_done_[cut] = {status, status.ok() ? newest_ : ""};  // one cut at a time, so it is the newest
  if (cuts_done_.size() > 64) cuts_done_.erase(cuts_done_.begin());
  if (options_->on_cut_done) retention_.Post([this, status] { options_->on_cut_done(status); });
  if (status.ok()) {
    options_->log->Info("checkpoint", {{"cut", cut}, {"path", newest_}});
    return;
  }
  options_->log->Failure(LogLevel::kWarning, "checkpoint_failed", status);
  // A manifest that storage holds up is written before: then the checkpoint is whole, and stays.
  const CheckpointId id = IdOf(core_->get()->view().cut.manifest());
  disk_.Post([this, id] { retention_.Post([this, id] { DeleteFailed(id); }); });
}

void ChiefCheckpoints::SetNewest(std::string directory) {
  core_->mu()->AssertHeld();
  newest_ = std::move(directory);
  newest_since_ = options_->clock->Now();
}

}  // namespace cohort
