#include "chief/job/job_directory.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "chief/job/control_note.h"
#include "chief/job/epoch_callbacks.h"
#include "chief/job/stream_log.h"
#include "common/base/crash_point.h"
#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/journal.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/run_note.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

// True if `path` is `directory` or is in it, also if a symbolic link leads there.
bool IsWithin(const std::string& path, const std::string& directory) {
  std::error_code unknown;
  const auto inner = std::filesystem::weakly_canonical(path, unknown);
  const auto outer = std::filesystem::weakly_canonical(directory, unknown);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace

absl::Status DeleteFormerRuns(const std::string& checkpoint_dir, const MayWrite& may_write) {
  const std::string journal = JoinPath(checkpoint_dir, "journal");
  // Fails before anything is deleted if another file has the journal's name.
  COHORT_RETURN_IF_ERROR(MakeDirectories(journal));
  COHORT_RETURN_IF_ERROR(RemoveFormerNote(checkpoint_dir, may_write));
  COHORT_ASSIGN_OR_RETURN(const auto entries, ListCheckpoints(checkpoint_dir));
  COHORT_RETURN_IF_ERROR(may_write());
  COHORT_RETURN_IF_ERROR(DeleteControlNote(checkpoint_dir));
  for (const CheckpointEntry& entry : entries) {
    COHORT_CRASH_POINT("chief.fresh.deleting");
    COHORT_RETURN_IF_ERROR(may_write());
    COHORT_RETURN_IF_ERROR(DeleteCheckpoint(entry.directory));
  }
  COHORT_CRASH_POINT("chief.fresh.deleting");
  COHORT_RETURN_IF_ERROR(DeleteJournals(journal, may_write));
  // Last: what is left without it cannot continue.
  return DeleteStreamLog(checkpoint_dir, may_write);
}

absl::StatusOr<std::unique_ptr<JobDirectory>> JobDirectory::Take(Options options,
                                                                 const JobPlan* plan) {
  if (options.path.empty()) {
    return WithExitCode(
        InvalidArgument("no checkpoint directory: give --checkpoint_dir, or `directory` under "
                        "`checkpoint` in the job file; the chief's journal lies in it too"),
        ExitCode::kUsage);
  }
  COHORT_RETURN_IF_ERROR(MakeDirectories(options.path));
  const DirectoryLock::Options wanted{.directory = options.path,
                                      .job = plan->identity(),
                                      .incarnation = options.chief_incarnation,
                                      .takeover = options.takeover};
  std::shared_ptr<DirectoryLock> lock;
  if (options.standby.has_value()) {
    COHORT_ASSIGN_OR_RETURN(StandbyLock taken, AwaitLock(wanted, *options.standby));
    lock = std::move(taken.lock);
    if (lock->former_stopped()) {
      lock->NoteStopped();  // for another standby
      return WithExitCode(
          Cancelled("the job was stopped (`cohort ctl`) while this chief was standing by"),
          ExitCode::kStopped);
    }
    options.takeover = taken.took_over;
  } else {
    COHORT_ASSIGN_OR_RETURN(lock, DirectoryLock::Take(wanted));
  }
  return std::unique_ptr<JobDirectory>(new JobDirectory(std::move(options), plan, std::move(lock)));
}

JobDirectory::JobDirectory(Options options, const JobPlan* plan,
                           std::shared_ptr<DirectoryLock> lock)
    : options_(std::move(options)),
      plan_(plan),
      rules_(options_.path, options_.servers, plan),
      lock_(std::move(lock)),
      lease_(lock_) {}

absl::Status JobDirectory::CheckKeeps(const std::string& path) const {
  if (!options_.fresh) return absl::OkStatus();
  COHORT_ASSIGN_OR_RETURN(const auto entries, ListCheckpoints(options_.path));
  for (const CheckpointEntry& entry : entries) {
    if (!IsWithin(path, entry.directory)) continue;
    return WithExitCode(
        InvalidArgument("{} is in the job's own checkpoint directory, and --fresh would delete it: "
                        "give another checkpoint directory, or copy it to another place",
                        path),
        ExitCode::kConfig);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<v1::Manifest>> JobDirectory::Prepare() {
  if (options_.fresh) {
    COHORT_RETURN_IF_ERROR(DeleteFormerRuns(options_.path, [this] { return lock_->Check(); }));
  }
  COHORT_ASSIGN_OR_RETURN(former_, ReadFormerJob(options_.path));
  if (former_.has_value() && !former_->moved) {
    COHORT_RETURN_IF_ERROR(FinishSettingAside(
        options_.path, [this] { return lock_->Check(); }, &*former_));
  }
  COHORT_ASSIGN_OR_RETURN(std::optional<v1::Manifest> newest, NewestManifest());
  if (newest.has_value()) {
    COHORT_ASSIGN_OR_RETURN(Continuation from, rules_.From(*newest));
    if (from.only_weights) {
      new_training_ = NewTraining{.from = IdOf(*newest), .changes = std::move(from.changes)};
      return std::optional<v1::Manifest>();
    }
    continuation_ = std::move(from);
  }
  const JobSchedule& schedule = plan_->schedule();
  std::string by;  // what has finished it
  if (newest.has_value() && newest->finished()) {
    const std::string stopped = WhyStopped(*newest, plan_->spec());
    if (std::max(newest->epoch(), newest->trained_epochs()) >= schedule.epochs) {
      by = "give more epochs (`fit.epochs`)";
    } else if (schedule.max_steps > 0 &&
               std::max(newest->step(), newest->trained_steps()) >= schedule.max_steps) {
      by = "give more steps (`fit.max_steps`)";
    } else if (!stopped.empty()) {
      by = fmt::format(
          "a callback has ended it ({}); give that callback other arguments, or leave "
          "it out",
          stopped);
    }
  }
  const bool finished = !by.empty();
  if (!finished || options_.finished_ok) COHORT_RETURN_IF_ERROR(NoteRun(newest, finished));
  if (!finished) return std::optional<v1::Manifest>();
  if (!options_.finished_ok) {
    return WithExitCode(
        FailedPrecondition("this job is finished: {} has its last checkpoint (step {}): {}. For "
                           "another training, give another checkpoint directory",
                           PathOf(IdOf(*newest).ToString()), newest->step(), by),
        ExitCode::kConfig);
  }
  return newest;
}

// A chief that is started again in the same launch keeps the note. The checkpoints of the launch
// begin after those that its first chief found.
absl::Status JobDirectory::NoteRun(const std::optional<v1::Manifest>& newest, bool finished) const {
  COHORT_ASSIGN_OR_RETURN(const std::optional<RunNote> before, ReadRunNote(options_.path));
  if (before.has_value() && !options_.launch.empty() && before->launch == options_.launch) {
    return absl::OkStatus();
  }
  RunNote note{.launch = options_.launch, .begins_after = {}};
  if (newest.has_value() && !finished) note.begins_after = IdOf(*newest);
  COHORT_RETURN_IF_ERROR(lock_->Check());
  return WriteRunNote(options_.path, note);
}

absl::Status JobDirectory::SetFormerAside(const CheckpointId& checkpoint) {
  COHORT_ASSIGN_OR_RETURN(
      former_, SetJobAside(options_.path, checkpoint, [this] { return lock_->Check(); }));
  new_training_.reset();
  // All checkpoints from here on belong to this job, also if this launch had noted another one.
  COHORT_RETURN_IF_ERROR(lock_->Check());
  return WriteRunNote(options_.path, {.launch = options_.launch, .begins_after = {}});
}

absl::StatusOr<bool> JobDirectory::HasJournal() const {
  const std::string journal = PathOf("journal");
  COHORT_RETURN_IF_ERROR(MakeDirectories(journal));
  COHORT_ASSIGN_OR_RETURN(const auto records, Journal::ReadAll(journal));
  return !records.empty();
}

// ------------------------------------------------------------------ CheckpointCatalog

absl::StatusOr<bool> JobDirectory::HasCheckpoint() const {
  COHORT_ASSIGN_OR_RETURN(const auto entries, ListCheckpoints(options_.path));
  return !entries.empty();
}

absl::StatusOr<v1::Manifest> JobDirectory::Read(const std::string& checkpoint) const {
  return ReadManifest(JoinPath(checkpoint, kManifestName));
}

absl::StatusOr<std::optional<v1::Manifest>> JobDirectory::NewestManifest() const {
  v1::Manifest manifest;
  COHORT_ASSIGN_OR_RETURN(const auto newest, NewestReadable(options_.path, &manifest));
  if (!newest.has_value()) return std::optional<v1::Manifest>();
  return std::optional<v1::Manifest>(std::move(manifest));
}

absl::StatusOr<std::optional<v1::BestCheckpoint>> JobDirectory::BestUpTo(
    const v1::Manifest& last, const BestRule& rule, const RefusedCallback& refused) const {
  return BestOf(options_.path, last, rule, refused);
}

std::string JobDirectory::PathOf(const std::string& name) const {
  return JoinPath(options_.path, name);
}

bool JobDirectory::IsGone(const std::string& name) const {
  std::error_code unknown;
  return !std::filesystem::exists(PathOf(name), unknown) && !unknown;
}

}  // namespace cohort
