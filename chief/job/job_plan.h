#ifndef COHORT_CHIEF_JOB_JOB_PLAN_H_
#define COHORT_CHIEF_JOB_JOB_PLAN_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "chief/api/coordinator.h"
#include "common/data/dataset.h"
#include "common/model/job_file.h"
#include "common/model/model_builder.h"
#include "proto/data.pb.h"

namespace cohort {

// What a job file comes to: programs, data, epochs and steps, and which records each step reads. A
// pure function of the file and the data, so that a restarted chief plans the same.
class JobPlan {
 public:
  // Opens the data (only to know its columns and sizes), builds the model. Errors: those of the
  // data and the model; InvalidArgument where the training set is smaller than one batch.
  static absl::StatusOr<JobPlan> Make(JobFile job, const DataOptions& data);

  // Vocabularies resolved, defaults written down.
  const v1::JobSpec& spec() const { return job_.spec; }
  const JobFile& job() const { return job_; }
  const BuiltModel& model() const { return model_; }
  // The job's name and a hash of what may not change between two runs of it: the programs,
  // variables and optimizer, the data, how it is visited, the seed. More epochs are the same job.
  const std::string& identity() const { return identity_; }
  // What was read. It is not in the identity: a job whose data were replaced is to be told so.
  const v1::DataFingerprint& train_data() const { return train_data_; }
  const v1::DataFingerprint& validation_data() const { return validation_data_; }

  uint64_t epochs() const { return job_.spec.fit().epochs(); }
  uint64_t steps_per_epoch() const { return steps_per_epoch_; }
  uint64_t validation_records() const { return validation_records_; }  // 0: no validation set
  bool exactly_once() const { return job_.spec.data().visitation() == v1::EXACTLY_ONCE; }
  uint64_t batch_size() const { return job_.spec.data().batch_size(); }
  // Of the closure at a place: steps_per_execution, less at the end of an epoch.
  uint32_t StepsAt(uint64_t place) const;
  uint64_t EpochEndOf(uint64_t place) const {
    return (place / steps_per_epoch_ + 1) * steps_per_epoch_;
  }
  // The records of the steps of the closure at a place; none in visitation independent.
  std::vector<LeaseRange> LeasesAt(uint64_t place, uint32_t steps) const;
  // Closures of one evaluation, each validation record once.
  std::vector<LeaseRange> ValidationBatches() const;

 private:
  JobFile job_;
  BuiltModel model_;
  std::string identity_;
  uint64_t steps_per_epoch_ = 0;
  v1::DataFingerprint train_data_;
  v1::DataFingerprint validation_data_;
  uint64_t train_records_ = 0;
  uint64_t validation_records_ = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_JOB_PLAN_H_
