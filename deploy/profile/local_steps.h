#ifndef COHORT_DEPLOY_PROFILE_LOCAL_STEPS_H_
#define COHORT_DEPLOY_PROFILE_LOCAL_STEPS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/data/dataset.h"
#include "common/exec/executable.h"
#include "common/exec/local_variables.h"
#include "common/exec/step_profile.h"
#include "common/optimizers/device_copies.h"
#include "common/optimizers/optimizers.h"

namespace cohort {

namespace v1 {
class DatasetSpec;
}
struct BuiltModel;

// Training steps of a job in this process and on this thread, with all variables here, or on the
// device, and without a network. Not thread-safe.
class LocalSteps {
 public:
  // `compile`: how the steps run. `on_device`: the variables live on the only device. If the
  // training data is not here, batches are made up: uniform numbers in [0, 1), and zeros for
  // integers. Errors: those of the job, the data and the model; InvalidArgument if there is not one
  // device for the variables.
  static absl::StatusOr<std::unique_ptr<LocalSteps>> Open(const std::string& job,
                                                          const DataOptions& data,
                                                          CompileOptions compile,
                                                          bool on_device = false);

  // Runs the next step, and records it in `profile`. The next epoch follows the end of the data.
  absl::Status Run(StepProfile* profile);

  const Program& program() const { return executable_->program(); }
  Executable* executable() { return executable_.get(); }
  int64_t batch_size() const { return batch_size_; }
  // Why batches are made up; "" if they are read.
  const std::string& no_data() const { return no_data_; }
  // Bytes of values, slots and gradients that the optimizers of a step read and write, at full
  // capacity.
  double update_bytes() const { return update_bytes_; }

 private:
  LocalSteps() = default;
  void CountUpdateBytes(const BuiltModel& model);
  absl::Status OpenReader(const v1::DatasetSpec& train, std::span<const std::string> features);
  void MakeUpBatch();

  int64_t batch_size_ = 0;
  std::string no_data_;
  std::shared_ptr<const Dataset> dataset_;  // null: batches are made up
  std::unique_ptr<BatchReader> reader_;
  BatchReader::Batch batch_;
  std::vector<Tensor> arguments_;  // the batch and, in float16, the loss scale
  std::vector<std::unique_ptr<OptimizerRule>> rules_;
  DeviceCopies copies_;  // where the variables lie; without readers, in the host's memory
  std::unique_ptr<LocalVariables> variables_;
  double update_bytes_ = 0;
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<VariableAccess> access_;
  uint64_t seed_ = 0;
  uint64_t step_ = 0;
};

}  // namespace cohort

#endif  // COHORT_DEPLOY_PROFILE_LOCAL_STEPS_H_
