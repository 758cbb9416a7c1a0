#include "worker/step_program.h"

#include <utility>

#include "common/base/status.h"
#include "common/graph/program_proto.h"

namespace cohort {

namespace {

absl::StatusOr<const BatchReader::Batch*> NextBatch(const v1::Closure& closure, uint32_t ordinal,
                                                    Resources* resources, ClosureRun* run) {
  const v1::Lease* lease = nullptr;
  if (closure.leases_size() > 0) {
    if (ordinal >= static_cast<uint32_t>(closure.leases_size())) {
      return InvalidArgument("step {} of a closure with {} leases", ordinal, closure.leases_size());
    }
    lease = &closure.leases(static_cast<int>(ordinal));
  }
  return resources->Next(closure.resource(), lease, run->mutable_read_position());
}

}  // namespace

absl::StatusOr<bool> BindStep(StepProgram* program, ClosureRun* run, uint32_t ordinal,
                              double loss_scale, Resources* resources) {
  const v1::Closure& closure = run->closure();
  std::vector<Tensor>& arguments = program->arguments;
  if (ordinal == 0) {
    arguments.clear();
    for (const v1::TensorValue& value : closure.arguments()) {
      COHORT_ASSIGN_OR_RETURN(Tensor tensor, TensorFromProto(value));
      arguments.push_back(std::move(tensor));
    }
  }
  std::vector<Tensor>& bound = program->bound;
  bound.clear();
  if (!closure.resource().empty()) {
    COHORT_ASSIGN_OR_RETURN(const BatchReader::Batch* batch,
                            NextBatch(closure, ordinal, resources, run));
    if (batch->records == 0) return false;
    bound.insert(bound.end(), batch->tensors.begin(), batch->tensors.end());
  }
  bound.insert(bound.end(), arguments.begin(), arguments.end());
  if (program->executable->program().loss_scaling.enabled()) {
    const auto scale = static_cast<float>(loss_scale);
    // Lanes may refer to the tensor, so it never changes.
    if (program->scale.values<float>()[0] != scale) program->scale = Tensor::Scalar(scale);
    bound.push_back(program->scale);
  }
  COHORT_RETURN_IF_ERROR(program->executable->Bind(bound));
  return true;
}

}  // namespace cohort
