#ifndef COHORT_EVALUATOR_RESTORED_MODEL_H_
#define COHORT_EVALUATOR_RESTORED_MODEL_H_

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "common/exec/executable.h"
#include "common/exec/local_variables.h"
#include "common/tensor/tensor.h"

namespace cohort {

class CheckpointReader;

// Where a checkpoint has the weights of a variable: the slot of its average, if `averages` are used
// and it has one, and else "" (its values).
std::string SlotToRead(const CheckpointReader& reader, const std::string& variable, bool averages);

// A program of a model with the weights of a checkpoint, run batch by batch in this process. It has
// no optimizer. One thread.
class RestoredModel {
 public:
  // `threads` work on one batch.
  static absl::StatusOr<std::unique_ptr<RestoredModel>> Create(Program program, int threads);

  // Reads the weights, or with `averages` those of SlotToRead, from any layout. `on_progress` (may
  // be empty) is called for each block. Errors: those of CheckpointReader::ReadRows.
  absl::Status Restore(const CheckpointReader& reader, bool averages,
                       const std::function<void()>& on_progress);

  // Runs the program on a batch; `tensors` are its arguments. executable() has the results.
  absl::Status Run(std::span<const Tensor> tensors);

  const Executable& executable() const { return *executable_; }

 private:
  RestoredModel() = default;

  std::unique_ptr<Executable> executable_;
  std::unique_ptr<LocalVariables> variables_;
  std::unique_ptr<VariableAccess> access_;
};

}  // namespace cohort

#endif  // COHORT_EVALUATOR_RESTORED_MODEL_H_
