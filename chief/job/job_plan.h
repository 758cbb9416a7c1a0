#ifndef COHORT_CHIEF_JOB_JOB_PLAN_H_
#define COHORT_CHIEF_JOB_JOB_PLAN_H_

#include <absl/status/statusor.h>

#include <string>

#include "chief/job/job_schedule.h"
#include "common/data/dataset.h"
#include "common/model/job_file.h"
#include "common/model/model_builder.h"
#include "proto/data.pb.h"

namespace cohort::v1 {
class Manifest;
}

namespace cohort {

// The plan of a job file: programs, data, and the schedule of its steps. It depends only on the
// file and the data, so a restarted chief makes the same plan.
class JobPlan {
 public:
  // Opens the data (only for its columns and sizes) and builds the model. Errors: those of the
  // data and the model; InvalidArgument if the training set is smaller than one batch.
  static absl::StatusOr<JobPlan> Make(JobFile job, const DataOptions& data);

  // The job's spec, with resolved vocabularies and explicit defaults.
  const v1::JobSpec& spec() const { return job_.spec; }
  const JobFile& job() const { return job_; }
  const BuiltModel& model() const { return model_; }
  // The job's name and a hash of all that must not change between two runs: the programs, variables
  // and optimizer, the data and its visitation, the seed. A job with more epochs is the
  // same job.
  const std::string& identity() const { return identity_; }
  // The data that was read. It is not part of the identity: replaced data has its own error.
  const v1::DataFingerprint& train_data() const { return train_data_; }
  const v1::DataFingerprint& validation_data() const { return validation_data_; }

  // True if this checkpoint was validated on the job's current validation set: figures of two sets
  // cannot be compared.
  bool HasValidationDataOf(const v1::Manifest& manifest) const;

  // The epochs, the steps, and the records that each step reads.
  const JobSchedule& schedule() const { return schedule_; }

 private:
  JobFile job_;
  BuiltModel model_;
  std::string identity_;
  JobSchedule schedule_;
  v1::DataFingerprint train_data_;
  v1::DataFingerprint validation_data_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_JOB_PLAN_H_
