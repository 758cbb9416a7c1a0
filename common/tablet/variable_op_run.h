#ifndef COHORT_COMMON_TABLET_VARIABLE_OP_RUN_H_
#define COHORT_COMMON_TABLET_VARIABLE_OP_RUN_H_

#include <absl/status/statusor.h>

#include <memory>
#include <utility>

#include "common/device/device.h"
#include "common/optimizers/variable_ops.h"

namespace cohort {

// One op on a variable of a device as a graph of its own. Not thread-safe.
class VariableOpRun {
 public:
  // Errors: those of the device.
  static absl::StatusOr<std::unique_ptr<VariableOpRun>> Make(const std::shared_ptr<Device>& device,
                                                             std::unique_ptr<VariableOp> op);
  // Runs the op and waits for it. Errors: those of the device.
  absl::Status Run(const VariableRun& run);

 private:
  explicit VariableOpRun(std::unique_ptr<VariableOp> op) : op_(std::move(op)) {}

  const std::unique_ptr<VariableOp> op_;
  DeviceMemory staging_, upload_;  // the body: pinned, and on the device
  std::unique_ptr<DeviceGraph> graph_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_VARIABLE_OP_RUN_H_
