#include "worker/step_program.h"

#include <utility>

#include "common/base/status.h"
#include "common/graph/program_proto.h"

namespace cohort {

absl::Status BindStep(StepProgram* program, ClosureRun* run, uint32_t ordinal,
                      Resources* resources) {
  const v1::Closure& closure = run->closure();
  std::vector<Tensor>& arguments = program->arguments;
  if (ordinal == 0) {
    arguments.clear();
    for (const v1::TensorValue& value : closure.arguments()) {
      COHORT_ASSIGN_OR_RETURN(Tensor tensor, TensorFromProto(value));
      arguments.push_back(std::move(tensor));
    }
  }
  if (closure.resource().empty()) return program->executable->Bind(arguments);
  const v1::Lease* lease = nullptr;
  if (closure.leases_size() > 0) {
    if (ordinal >= static_cast<uint32_t>(closure.leases_size())) {
      return InvalidArgument("step {} of a closure with {} leases", ordinal, closure.leases_size());
    }
    lease = &closure.leases(static_cast<int>(ordinal));
  }
  COHORT_ASSIGN_OR_RETURN(const BatchReader::Batch* batch,
                          resources->Next(closure.resource(), lease, run->mutable_read_position()));
  if (arguments.empty()) return program->executable->Bind(batch->tensors);
  std::vector<Tensor> all = batch->tensors;
  all.insert(all.end(), arguments.begin(), arguments.end());
  return program->executable->Bind(all);
}

}  // namespace cohort
