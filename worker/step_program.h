#ifndef COHORT_WORKER_STEP_PROGRAM_H_
#define COHORT_WORKER_STEP_PROGRAM_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "common/exchange/variable_access.h"
#include "common/exec/executable.h"
#include "common/graph/loss_scale.h"
#include "common/tensor/tensor.h"
#include "worker/closure_run.h"
#include "worker/resources.h"

namespace cohort {

// A program in the form in which the step thread runs it.
struct StepProgram {
  absl::Status status;  // why it cannot run
  std::unique_ptr<Executable> executable;
  std::unique_ptr<VariableAccess> access;
  bool uses_variables = false;
  // The scale that this worker has; synchronous closures bring that of the job.
  LossScale loss_scale{LossScaling{}};
  std::vector<Tensor> arguments;        // that the closure brings whose steps are bound
  std::vector<Tensor> bound;            // what Bind got last; keeps its memory
  Tensor scale = Tensor::Scalar(0.0f);  // the loss scale that was bound last
};

// Binds step `ordinal` of a closure to the current lane: the next batch of the closure's resource,
// then the closure's arguments, then `loss_scale` if the program has one. The steps of a closure
// are bound in their order, and no other closure between them. Returns false and binds nothing if
// the batch has no records, because the user leaves out the file. Errors: those of Resources::Next
// and Executable::Bind; InvalidArgument if the closure has no lease for the step.
absl::StatusOr<bool> BindStep(StepProgram* program, ClosureRun* run, uint32_t ordinal,
                              double loss_scale, Resources* resources);

}  // namespace cohort

#endif  // COHORT_WORKER_STEP_PROGRAM_H_
