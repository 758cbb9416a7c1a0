// The checkpoint directory of a job, before it begins: whose it is, and what is there already.
#include "chief/job/job_runner.h"
#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/directory_lock.h"
#include "common/checkpoint/file.h"
#include "common/data/fingerprint.h"
#include "proto/checkpoint.pb.h"

namespace cohort {

absl::Status JobRunner::TakeDirectory() {
  if (checkpoint_dir_.empty()) {
    return WithExitCode(
        InvalidArgument("no checkpoint directory: give --checkpoint_dir, or `directory` under "
                        "`checkpoint` in the job file; the chief's journal lies in it too"),
        ExitCode::kUsage);
  }
  Do("taking the checkpoint directory " + checkpoint_dir_);
  COHORT_RETURN_IF_ERROR(MakeDirectories(checkpoint_dir_));
  COHORT_ASSIGN_OR_RETURN(lock_, DirectoryLock::Take({.directory = checkpoint_dir_,
                                                      .job = plan_->identity(),
                                                      .incarnation = options_.chief_incarnation,
                                                      .takeover = options_.takeover}));
  return absl::OkStatus();
}

absl::Status JobRunner::LookAtDirectory() {
  if (options_.fresh) {
    COHORT_RETURN_IF_ERROR(DeleteFormerRuns(checkpoint_dir_, [this] { return lock_->Check(); }));
  }
  v1::Manifest manifest;
  COHORT_ASSIGN_OR_RETURN(const auto newest, NewestReadable(checkpoint_dir_, &manifest));
  if (!newest.has_value()) return absl::OkStatus();
  COHORT_RETURN_IF_ERROR(CheckIsThisJob(manifest));
  if (!manifest.finished() || manifest.epoch() < plan_->epochs()) return absl::OkStatus();
  if (!options_.finished_ok) {
    return WithExitCode(
        FailedPrecondition("this job is finished: {} has its last checkpoint (step {}): give "
                           "another directory, --fresh to train it anew, or more epochs",
                           newest->directory, manifest.step()),
        ExitCode::kConfig);
  }
  report_.checkpoint = newest->directory;
  report_.found_finished = manifest.step();
  if (manifest.has_best()) {
    report_.best_checkpoint = JoinPath(checkpoint_dir_, manifest.best().checkpoint());
    report_.best_text = BestText(manifest.best());
  }
  return absl::OkStatus();
}

// One whose training data were replaced cannot go on: the records that an epoch has had are not
// those that it would leave out. That comes first, for what is learned from the data may be part of
// the identity. Nor can one whose validation data were: its figures would be told as those of one
// set. Another set under another name is the user's choice.
absl::Status JobRunner::CheckIsThisJob(const v1::Manifest& manifest) const {
  const v1::JobSpec& spec = plan_->spec();
  const v1::DataSpec& then = manifest.job_spec().data();
  const bool same = manifest.job() == plan_->identity();
  const bool same_train = same || (manifest.job_spec().name() == spec.name() &&
                                   ReadTheSame(then.train(), spec.data().train()));
  if (manifest.has_train_data() && same_train) {
    const std::string difference =
        DifferenceOf({plan_->train_data(), "now"}, {manifest.train_data(), "then"});
    if (!difference.empty()) {
      return InvalidArgument(
          "{} holds checkpoints of this job over other data: {}; put back what was there then, or "
          "give --fresh to train anew, or another directory",
          checkpoint_dir_, difference);
    }
  }
  if (!same) {
    return WithExitCode(
        FailedPrecondition("{} holds checkpoints of another job, {}; this one is {}: give another "
                           "directory, or --fresh to delete them",
                           checkpoint_dir_, manifest.job(), plan_->identity()),
        ExitCode::kConfig);
  }
  if (!manifest.has_validation_data() || !spec.data().has_validation() ||
      !ReadTheSame(then.validation(), spec.data().validation())) {
    return absl::OkStatus();
  }
  const std::string difference =
      DifferenceOf({plan_->validation_data(), "now"}, {manifest.validation_data(), "then"});
  if (difference.empty()) return absl::OkStatus();
  return InvalidArgument(
      "{} holds checkpoints of this job over other validation data: {}; put back what was there "
      "then, or give what is there now another name in the job file, or give --fresh to train "
      "anew, or another directory",
      checkpoint_dir_, difference);
}

bool JobRunner::ValidatedAsNow(const v1::Manifest& manifest) const {
  const v1::DatasetSpec then = WhatIsRead(manifest.job_spec().data().validation());
  const v1::DatasetSpec now = WhatIsRead(plan_->spec().data().validation());
  if (then.SerializeAsString() != now.SerializeAsString()) return false;
  return !manifest.has_validation_data() ||
         DifferenceOf({plan_->validation_data(), "now"}, {manifest.validation_data(), "then"})
             .empty();
}

}  // namespace cohort
