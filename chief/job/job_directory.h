#ifndef COHORT_CHIEF_JOB_JOB_DIRECTORY_H_
#define COHORT_CHIEF_JOB_JOB_DIRECTORY_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chief/job/checkpoint_catalog.h"
#include "chief/job/former_job.h"
#include "chief/job/job_continuation.h"
#include "chief/job/job_plan.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/directory_lock.h"
#include "common/checkpoint/lock_lease.h"

namespace cohort {

// What a job that starts only from the weights of the directory's newest checkpoint begins with.
struct NewTraining {
  CheckpointId from;
  std::vector<KeyChange> changes;
};

// For --fresh: deletes all checkpoints, journals and the control note in `checkpoint_dir`, but not
// those of former jobs (former_job.h). Calls `may_write` before each deletion and ends with its
// error.
absl::Status DeleteFormerRuns(const std::string& checkpoint_dir, const MayWrite& may_write);

// The checkpoint directory of a job. While the object exists, only this chief uses the directory.
// The directory may hold nothing, this job, this job finished, or another job.
class JobDirectory : public CheckpointCatalog {
 public:
  struct Options {
    std::string path;
    bool fresh = false;        // delete the checkpoints of earlier runs
    bool finished_ok = false;  // accept a directory that holds this job finished
    std::string launch;        // RunNote
    bool takeover = false;
    std::optional<StandbyOptions> standby;  // waits until no other chief has the directory
    uint64_t chief_incarnation = 0;
    uint32_t servers = 0;  // how many the cluster has
  };

  // Creates the directory and takes its lock. `plan` must outlive the object. Errors:
  // InvalidArgument if there is no path; those of DirectoryLock::Take and of AwaitLock.
  static absl::StatusOr<std::unique_ptr<JobDirectory>> Take(Options options, const JobPlan* plan);

  // For a file or directory that the job still reads after Prepare. Errors: InvalidArgument if it
  // is in a checkpoint of this directory and `fresh` is set, so that Prepare would delete it.
  absl::Status CheckKeeps(const std::string& path) const;
  // With `fresh`, deletes earlier runs. Finishes the move of a former job. Writes the RunNote,
  // except with new_training(). Returns the last manifest if this job
  // is already finished. Errors: those of JobContinuation::From; FailedPrecondition if this job is
  // finished, without `finished_ok`.
  absl::StatusOr<std::optional<v1::Manifest>> Prepare();
  // After Prepare: how the job continues; nullopt if there is no checkpoint.
  const std::optional<Continuation>& continuation() const { return continuation_; }
  // After Prepare: the job takes only the weights of the checkpoint. It writes them to another
  // place, and calls SetFormerAside.
  const std::optional<NewTraining>& new_training() const { return new_training_; }
  // Moves the checkpoints of the former job away (former_job.h), and writes the RunNote.
  // `checkpoint`: the one whose weights were taken.
  absl::Status SetFormerAside(const CheckpointId& checkpoint);
  // The job before this one in this directory; nullopt: there was none.
  const std::optional<FormerJob>& former() const { return former_; }
  // Returns an error if the job must not continue from this checkpoint.
  absl::Status CheckMayRestore(const v1::Manifest& manifest) const {
    return rules_.Check(manifest);
  }

  // Returns true if the journal has records: an earlier start of the job had a cluster. Errors:
  // those of Journal::ReadAll.
  absl::StatusOr<bool> HasJournal() const;

  const std::string& path() const { return options_.path; }
  // It was taken from a chief that may still live, whose tasks must be taken over, too.
  bool took_over() const { return options_.takeover; }
  const std::shared_ptr<DirectoryLock>& lock() const { return lock_; }

  // CheckpointCatalog
  absl::StatusOr<bool> HasCheckpoint() const override;
  absl::StatusOr<v1::Manifest> Read(const std::string& checkpoint) const override;
  absl::StatusOr<std::optional<v1::Manifest>> NewestManifest() const override;
  absl::StatusOr<std::optional<v1::BestCheckpoint>> BestUpTo(
      const v1::Manifest& last, const BestRule& rule,
      const RefusedCallback& refused) const override;
  std::string PathOf(const std::string& name) const override;
  bool IsGone(const std::string& name) const override;

 private:
  // `newest`: the newest checkpoint; `finished`: it is the last one of this job.
  absl::Status NoteRun(const std::optional<v1::Manifest>& newest, bool finished) const;
  JobDirectory(Options options, const JobPlan* plan, std::shared_ptr<DirectoryLock> lock);

  const Options options_;
  const JobPlan* const plan_;
  const JobContinuation rules_;
  std::optional<Continuation> continuation_;
  std::optional<NewTraining> new_training_;
  std::optional<FormerJob> former_;
  const std::shared_ptr<DirectoryLock> lock_;
  const LockLease lease_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_JOB_DIRECTORY_H_
