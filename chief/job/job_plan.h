#ifndef COHORT_CHIEF_JOB_JOB_PLAN_H_
#define COHORT_CHIEF_JOB_JOB_PLAN_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chief/job/job_keys.h"
#include "chief/job/job_schedule.h"
#include "common/data/dataset.h"
#include "common/model/job_file.h"
#include "common/model/model_builder.h"
#include "proto/data.pb.h"

namespace cohort {

// The plan of a job file: programs, data, and the schedule of its steps. It depends only on the
// file, the data and the checkpoint that the job continues from, so a restarted chief makes the
// same plan.
class JobPlan {
 public:
  // Opens the data (only for its columns and sizes) and builds the model. Errors: those of the
  // data and the model; InvalidArgument if the training set is smaller than one batch.
  static absl::StatusOr<JobPlan> Make(JobFile job, const DataOptions& data);

  // The job's spec, with resolved vocabularies and explicit defaults.
  const v1::JobSpec& spec() const { return job_.spec; }
  const JobFile& job() const { return job_; }
  const BuiltModel& model() const { return model_; }
  // What the job consists of, without the number of servers.
  const JobKeys& keys() const { return keys_; }
  // The job's name and a hash of the keys that make another job if they change (change_rules.h). A
  // job with more epochs is the same job.
  const std::string& identity() const { return identity_; }
  const std::shared_ptr<const v1::JobIdentity>& identity_keys() const { return identity_keys_; }
  // The hash of the training program, the batches and the places of the epochs. If it changes, the
  // closures of an earlier run have lost their meaning.
  uint64_t closures_hash() const;
  // The data that was read. It is not part of the identity: replaced data has its own error.
  const v1::DataFingerprint& train_data() const { return train_data_; }
  const v1::DataFingerprint& validation_data() const { return validation_data_; }
  // What is odd about the data, one line each for the console.
  const std::vector<std::string>& data_warnings() const { return data_warnings_; }

  // True if this checkpoint was validated on the job's current validation set: figures of two sets
  // cannot be compared.
  bool HasValidationDataOf(const v1::Manifest& manifest) const;

  // The epochs, the steps, and the records that each step reads.
  const JobSchedule& schedule() const { return schedule_; }
  v1::EpochPlan epoch_plan() const;
  // The job continues from a checkpoint, with these places of its epochs.
  void SetEpochPlan(const v1::EpochPlan& plan);
  // `epochs`: how many the job has in all.
  void SetEpochs(uint64_t epochs) { schedule_.epochs = epochs; }
  // Visitation stream: adds files of the stream's list, in its order. `end`: the places of the
  // list, with those of files that have left it.
  void AddStreamFiles(const std::vector<v1::StreamFile>& files, uint64_t end);
  void DropStreamFilesBefore(uint64_t place) { schedule_.stream->DropBefore(place); }
  // No file will come: the training ends after those that were added.
  void EndStream();
  // In the modes sync and bounded_staleness; 0: async.
  uint32_t closures_per_step() const { return closures_per_step_; }
  // Always the same number. `scale_learning_rate: linear` then multiplies the learning rates of
  // model() by the closures of a step that count (Goyal et al., 2017).
  void SetClosuresPerStep(uint32_t closures);
  // The learning rate of an iteration of the first optimizer, by its schedule; null if it has none.
  std::function<double(uint64_t)> LearningRate() const;
  // The learning rate of the only optimizer; nullopt: it has a schedule, or there are several.
  std::optional<double> ConstantLearningRate() const;

 private:
  void AddWarnings(std::string_view data, const Dataset& dataset);

  uint32_t closures_per_step_ = 0;
  JobFile job_;
  BuiltModel model_;
  JobKeys keys_;
  std::string identity_;
  std::shared_ptr<const v1::JobIdentity> identity_keys_;
  JobSchedule schedule_;
  v1::DataFingerprint train_data_;
  v1::DataFingerprint validation_data_;
  std::vector<std::string> data_warnings_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_JOB_PLAN_H_
