#ifndef COHORT_COMMON_EXEC_RESIDENT_STEP_H_
#define COHORT_COMMON_EXEC_RESIDENT_STEP_H_

#include <absl/status/statusor.h>

#include <memory>
#include <vector>

#include "common/exec/compiled_program.h"
#include "common/exec/resident_variables.h"
#include "common/exec/value_table.h"

namespace cohort {

// What the steps of a program in one slot do with variables that live on the device:
//
//   upload bodies -> read rows -> (the program's kernels) -> scale of gradients -> pushes
//
// Whole variables are read where they lie. The plan orders a push behind the last kernel that reads the
// variable, because it writes there.
class ResidentStep {
 public:
  // `on_device`: the values on the device; it points to the slot. All outlive this object. Errors: those
  // of ResidentVariables::Find and VariableOps; FailedPrecondition: a gradient of a variable that is not
  // trainable, or without the weight of a loss.
  static absl::StatusOr<std::unique_ptr<ResidentStep>> Make(const CompiledProgram& compiled,
                                                            const ValueTable* on_device,
                                                            const ResidentVariables& variables);

  // The values that it reads on the device, which kernels need not read.
  static std::vector<ValueId> Inputs(const Program& program);

  // Writes the bodies of a run with the counts that the tables have now; the optimizer sees this step.
  // Errors: InvalidArgument for keys beyond a variable's rows.
  absl::Status WriteBodies(uint64_t step, const ValueTable& host);
  void PlanReads(GraphPlan* plan) const;
  void PlanPushes(GraphPlan* plan) const;

 private:
  struct Op {
    std::unique_ptr<VariableOp> op;
    ValueId keys = kNoValue;
    const DeviceVariable* variable = nullptr;  // that the keys belong to
    size_t body = 0;                           // offset
  };

  ResidentStep(const CompiledProgram& compiled, const ValueTable* on_device,
               const ResidentVariables& variables)
      : program_(compiled.program), on_device_(on_device), variables_(variables) {}
  absl::Status AddReads(const CompiledProgram& compiled, const VariableOps& ops);
  absl::Status AddPushes(const VariableOps& ops);
  absl::StatusOr<std::unique_ptr<VariableOp>> OpOfPush(const Push& push, const VariableOps& ops);
  absl::Status Allocate();
  DeviceKeys KeysOf(ValueId keys) const;
  absl::Status CheckKeys(const Op& op, const ValueView& keys) const;
  void Plan(const std::vector<Op>& ops, GraphPlan* plan) const;

  const Program& program_;
  const ValueTable* const on_device_;
  const ResidentVariables& variables_;
  std::vector<const ResidentVariables::Variable*> bound_;  // by variable of the program
  std::vector<Op> reads_, pushes_;
  DeviceMemory scale_;              // a double, the factor of gradients
  DeviceMemory staging_, uploads_;  // the bodies: pinned, and on the device
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_RESIDENT_STEP_H_
