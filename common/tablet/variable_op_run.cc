#include "common/tablet/variable_op_run.h"

#include "common/base/status.h"

namespace cohort {

absl::StatusOr<std::unique_ptr<VariableOpRun>> VariableOpRun::Make(
    const std::shared_ptr<Device>& device, std::unique_ptr<VariableOp> op) {
  std::unique_ptr<VariableOpRun> run(new VariableOpRun(std::move(op)));
  const size_t bytes = run->op_->body_bytes();
  COHORT_ASSIGN_OR_RETURN(run->staging_, device->AllocatePinned(bytes, "an op on a variable"));
  COHORT_ASSIGN_OR_RETURN(run->upload_, device->Allocate(bytes, "an op on a variable"));
  GraphPlan plan;
  plan.AddCopy(
      "body",
      {.to = run->upload_.data(), .from = run->staging_.data(), .bytes = bytes, .to_device = true});
  run->op_->AddTo(&plan, run->upload_.data());
  COHORT_ASSIGN_OR_RETURN(run->graph_, device->Instantiate(plan));
  return run;
}

absl::Status VariableOpRun::Run(const VariableRun& run) {
  op_->WriteBody(run, staging_.data());
  COHORT_RETURN_IF_ERROR(graph_->Launch());
  return graph_->Wait();
}

}  // namespace cohort
