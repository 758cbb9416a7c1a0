#ifndef COHORT_CHIEF_JOB_JOB_CONTINUATION_H_
#define COHORT_CHIEF_JOB_JOB_CONTINUATION_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chief/job/job_keys.h"
#include "chief/job/job_plan.h"

namespace cohort {

// How a job continues from a checkpoint.
struct Continuation {
  v1::EpochPlan epochs;            // places of the epochs from now on
  std::vector<KeyChange> changes;  // all of them, allowed ones
  // How the workers of the checkpoint calculated; null: unknown.
  std::shared_ptr<const v1::NumericFingerprint> fingerprint;
  // Where the checkpoint has the variables; null: they may have to be elsewhere.
  std::shared_ptr<const v1::Layout> layout;
  // True: the job takes only the weights of the checkpoint, and its training begins at step 0.
  // `epochs` and `fingerprint` are not set.
  bool only_weights = false;
};

// Decides whether a job may continue from a checkpoint (change_rules.h). The checkpoint must belong
// to the same job over the same data. If the metrics or another key of that kind have changed, it
// must have been taken at the end of an epoch. With another model, optimizer or loss, or with
// another batch size inside an epoch, the job takes only the weights of the checkpoint.
//
// The new steps of an epoch count from that checkpoint on. So a later rollback may go back to it,
// but to no earlier one.
class JobContinuation {
 public:
  // `directory`: the checkpoint directory. `servers`: of the cluster. `plan` must outlive the
  // object.
  JobContinuation(std::string directory, uint32_t servers, const JobPlan* plan)
      : directory_(std::move(directory)), servers_(servers), plan_(plan) {}

  // For the newest checkpoint, when the job starts. Errors: FailedPrecondition (exit code 78) that
  // names the keys that differ, if this is another job or the checkpoint lies inside an epoch;
  // InvalidArgument if the data was replaced.
  absl::StatusOr<Continuation> From(const v1::Manifest& newest) const;
  // For the checkpoint that is about to be restored, after SetEpochPlan of the plan. Errors: as
  // above; a checkpoint from which the job can take only the weights is refused, too.
  absl::Status Check(const v1::Manifest& manifest) const;

 private:
  absl::StatusOr<std::vector<KeyChange>> CompareKeys(const v1::Manifest& manifest) const;
  absl::Status CheckTrainingData(const v1::Manifest& manifest) const;
  absl::Status CheckValidationData(const v1::Manifest& manifest) const;
  v1::EpochPlan EpochsOf(const v1::Manifest& manifest) const;
  bool IsAtEpochEnd(const v1::Manifest& manifest) const;
  absl::Status OtherJob(const v1::Manifest& manifest, const std::vector<KeyChange>& changes) const;
  absl::Status InsideEpoch(const v1::Manifest& manifest, std::vector<KeyChange> changes) const;
  // Describes changes: "data.batch_size: 32 -> 64 (job.yaml:7)".
  std::string TextOf(const std::vector<KeyChange>& changes) const;
  std::string PathOf(const v1::Manifest& manifest) const;
  // Returns ", or copy ...": the newest checkpoint of the directory that was taken at the end of an
  // epoch; "" if there is none.
  std::string EpochEndHint() const;

  const std::string directory_;
  const uint32_t servers_;
  const JobPlan* const plan_;
};

// Returns the line of a key's value in the job file, "job.yaml:7"; "" if the file has no such key.
std::string LineOf(const JobLines& lines, const std::string& key);

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_JOB_CONTINUATION_H_
