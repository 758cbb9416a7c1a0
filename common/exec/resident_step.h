#ifndef COHORT_COMMON_EXEC_RESIDENT_STEP_H_
#define COHORT_COMMON_EXEC_RESIDENT_STEP_H_

#include <absl/status/statusor.h>

#include <memory>
#include <vector>

#include "common/exec/compiled_program.h"
#include "common/exec/value_table.h"
#include "common/optimizers/resident_variables.h"

namespace cohort {

// What the steps of a program in one lane do with variables that live on the device, in two graphs:
//
//   a run:     upload bodies -> read rows -> (the program's kernels) -> scale of gradients
//   an update: upload bodies -> pushes of one group of variables
//
// There is no update if others sum the gradients (HostPushes::kAllButGradients). Whole
// variables are read where they lie. The owner of the variables decides about the update after the
// run: what the run has computed stays in the memory of the device until then.
class ResidentStep {
 public:
  // `on_device`: the values on the device; it points to the lane. All outlive this object. Errors:
  // those of ResidentVariables::Find and VariableOps; FailedPrecondition: a gradient of a variable
  // that is not trainable, or without the weight of a loss.
  static absl::StatusOr<std::unique_ptr<ResidentStep>> Make(const CompiledProgram& compiled,
                                                            const ValueTable* on_device,
                                                            const ResidentVariables& variables);

  // The values that it reads on the device, which kernels need not read.
  static std::vector<ValueId> Inputs(const CompiledProgram& compiled);

  // Writes the bodies of a run with the counts that the tables have now, and notes the keys for its
  // update. Errors: InvalidArgument for keys beyond a variable's rows.
  absl::Status WriteReads(const ValueTable& host);
  void PlanReads(GraphPlan* plan) const;
  // Adds the kernels that scale gradients; they run after the step's own kernels.
  void PlanScale(GraphPlan* plan) const;

  // Writes the bodies of the update that follows the newest run. The optimizer sees this step.
  void WritePushes(uint32_t group, uint64_t step);
  void PlanPushes(uint32_t group, GraphPlan* plan) const;
  // Bytes that a step's updates upload, all groups together.
  size_t push_bytes() const { return uploads_.bytes() - read_bytes_; }

 private:
  struct Op {
    std::unique_ptr<VariableOp> op;
    ValueId keys = kNoValue;
    const DeviceVariable* variable = nullptr;  // that the keys belong to
    uint32_t group = 0;                        // a push updates it
    size_t body = 0;                           // offset
    int64_t count = 0;                         // keys of the newest run
  };

  ResidentStep(const CompiledProgram& compiled, const ValueTable* on_device,
               const ResidentVariables& variables)
      : program_(compiled.program), on_device_(on_device), variables_(variables) {}
  absl::Status AddReads(const CompiledProgram& compiled, const VariableOps& ops);
  absl::Status AddScale(const VariableOps& ops);
  absl::Status AddPushes(const VariableOps& ops);
  absl::StatusOr<std::unique_ptr<VariableOp>> OpOfPush(const Push& push, const VariableOps& ops);
  absl::Status Allocate();
  DeviceKeys KeysOf(ValueId keys) const;
  absl::Status CheckKeys(const Op& op, const ValueView& keys) const;
  absl::Status NoteKeys(std::vector<Op>* ops, const ValueTable& host) const;
  void PlanUpload(size_t begin, size_t end, GraphPlan* plan) const;

  const Program& program_;
  const ValueTable* const on_device_;
  const ResidentVariables& variables_;
  std::vector<const ResidentVariables::Variable*> bound_;  // by variable of the program
  // In the order of their bodies. `scale_ops_` has one, unless no push is a gradient.
  std::vector<Op> reads_, scale_ops_;
  std::vector<Op> pushes_;          // by group
  size_t read_bytes_ = 0;           // bodies of reads and scale
  DeviceMemory scale_;              // a double, the factor of gradients
  DeviceMemory staging_, uploads_;  // the bodies: pinned, and on the device
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_RESIDENT_STEP_H_
