#include "chief/api/restoration.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "chief/api/coordinator.h"
#include "chief/api/start_options.h"
#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/manifest.h"

namespace cohort {

absl::Status Restoration::ResumeOrRestore() {
  uint64_t timeline = 0;
  std::string began_from;
  bool resumed = false;
  {
    MutexLock lock(core_->mu());
    CoordinatorCore* const core = core_->get();
    resumed = core->view().variables.CanResume();
    timeline = core->view().timeline();
    began_from = core->view().variables.began_from();
    if (resumed) {
      core->Resume();
      options_->log->Info("job_resumed",
                          {{"what", fmt::format("timeline {}, {} steps done", timeline,
                                                core->view().settlement.steps())}});
    }
  }
  if (!resumed) return RestoreWithin(StartTimeoutOf(*options_), "");
  COHORT_ASSIGN_OR_RETURN(std::string newest, NewestOf(timeline, began_from));
  MutexLock lock(core_->mu());
  checkpoints_->SetNewest(std::move(newest));
  return absl::OkStatus();
}

absl::StatusOr<std::string> Restoration::NewestOf(uint64_t timeline,
                                                  const std::string& began_from) const {
  COHORT_ASSIGN_OR_RETURN(const auto entries, ListCheckpoints(options_->checkpoint_dir));
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (entry->id.timeline == timeline && ReadManifest(entry->manifest).ok()) {
      return entry->directory;
    }
  }
  return began_from.substr(0, began_from.find_last_of('/'));
}

absl::Status Restoration::AwaitServers() {
  MutexLock lock(core_->mu());
  CoordinatorCore* const core = core_->get();
  const auto there = [core] { return core->view().all_ps_there() || core->view().error_pending(); };
  COHORT_ASSIGN_OR_RETURN(const bool in_time,
                          core_->Wait(there, core_->Deadline(options_->task_timeout_s)));
  if (core_->failed()) return core->TakeError();
  return in_time ? absl::OkStatus() : core_->GaveUp(options_->task_timeout_s);
}

absl::Status Restoration::Restore(const std::string& checkpoint) {
  return RestoreWithin(options_->task_timeout_s, checkpoint);
}

absl::Status Restoration::RestoreWithin(double limit_s, const std::string& checkpoint) {
  const TimePoint deadline = core_->Deadline(limit_s);
  while (true) {
    COHORT_RETURN_IF_ERROR(WaitForServers(deadline, limit_s));
    const absl::Status status = RollBackOnce(checkpoint);
    if (status.ok()) return status;
    const auto info = GetFailure(status);
    const bool again = info.has_value() && info->role == "ps" && info->retryable;
    if (!again || options_->clock->Now() >= deadline) return status;
  }
}

absl::Status Restoration::WaitForServers(TimePoint deadline, double limit_s) {
  MutexLock lock(core_->mu());
  CoordinatorCore* const core = core_->get();
  const auto there = [core] { return core->view().all_ps_there(); };
  COHORT_ASSIGN_OR_RETURN(const bool in_time, core_->Wait(there, deadline));
  if (core_->failed()) return core->TakeError();
  if (in_time) return absl::OkStatus();
  absl::Status status = core_->GaveUp(limit_s);
  SetFailure(&status, {.role = "ps", .retryable = false});
  return status;
}

absl::StatusOr<std::optional<CheckpointEntry>> Restoration::Choose(const std::string& checkpoint,
                                                                   v1::Manifest* manifest) const {
  std::optional<CheckpointEntry> entry;
  if (checkpoint.empty()) {
    COHORT_ASSIGN_OR_RETURN(entry, NewestUsable());
  } else {
    COHORT_ASSIGN_OR_RETURN(entry, CheckpointAt(checkpoint));
  }
  if (!entry.has_value()) return entry;
  COHORT_ASSIGN_OR_RETURN(*manifest, ReadManifest(entry->manifest));
  COHORT_RETURN_IF_ERROR(CheckManifest(*manifest));
  return entry;
}

absl::StatusOr<std::optional<CheckpointEntry>> Restoration::NewestUsable() const {
  std::vector<std::string> refusals;
  const auto refused = [&](const std::string& path, const absl::Status& why) {
    const std::string reason(why.message());
    options_->log->Warning("checkpoint_refused", {{"path", path}, {"why", reason}});
    refusals.push_back(fmt::format("checkpoint {} {} ({})", path.substr(0, path.find_last_of('/')),
                                   absl::IsDataLoss(why) ? "is damaged" : "cannot be used",
                                   reason));
    if (options_->on_wait) options_->on_wait(refusals.back() + "; restoring the one before it");
  };
  COHORT_ASSIGN_OR_RETURN(auto entry, NewestValid(options_->checkpoint_dir, refused));
  if (!entry.has_value()) {
    if (refusals.empty()) return entry;
    // A silent start at step 0 would lose checkpoints that the user may still repair.
    return WithExitCode(
        DataLoss("none of the {} checkpoints in {} can be used; the newest: {}. Repair or move "
                 "them away, or give another checkpoint directory",
                 refusals.size(), options_->checkpoint_dir, refusals.front()),
        ExitCode::kData);
  }
  return entry;
}

absl::Status Restoration::CheckManifest(const v1::Manifest& manifest) const {
  if (options_->check_manifest) return options_->check_manifest(manifest);
  if (manifest.job() == options_->job) return absl::OkStatus();
  return WithExitCode(FailedPrecondition("{} holds checkpoints of another job ({}, not {}): give "
                                         "another checkpoint directory",
                                         options_->checkpoint_dir, manifest.job(), options_->job),
                      ExitCode::kConfig);
}

absl::Status Restoration::RollBackOnce(const std::string& checkpoint) {
  {
    // If a manifest were committed from now on, it would become the newest, and its retention could
    // delete the checkpoint that is found here and restored.
    MutexLock lock(core_->mu());
    core_->get()->DropCut();
  }
  v1::Manifest manifest;
  COHORT_ASSIGN_OR_RETURN(const auto entry, Choose(checkpoint, &manifest));
  MutexLock lock(core_->mu());
  CoordinatorCore* const core = core_->get();
  done_.reset();
  COHORT_RETURN_IF_ERROR(core->RollBack(entry.has_value() ? &manifest : nullptr,
                                        entry.has_value() ? entry->manifest : ""));
  const auto done = [this]()
                        ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->mu()) { return done_.has_value(); };
  // The core ends a rollback in which a server makes no progress.
  COHORT_RETURN_IF_ERROR(core_->Wait(done, CallWaits::kForever).status());
  if (core_->failed()) return core->TakeError();
  if (done_->ok() && entry.has_value()) checkpoints_->SetNewest(entry->directory);
  const std::string& values = options_->initial_values;
  options_->log->Info("tablets_assigned", {{"timeline", core->view().timeline()},
                                           {"from", entry.has_value() ? entry->directory
                                                    : values.empty()  ? "initializers"
                                                                      : values},
                                           {"status", done_->ToString()}});
  return *done_;
}

void Restoration::OnRollbackDone(const absl::Status& status) {
  core_->mu()->AssertHeld();
  done_ = status;
}

}  // namespace cohort
