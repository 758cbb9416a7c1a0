#ifndef COHORT_COMMON_EXEC_RESIDENT_VARIABLES_H_
#define COHORT_COMMON_EXEC_RESIDENT_VARIABLES_H_

#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/device/device.h"
#include "common/graph/program.h"
#include "common/optimizers/variable_ops.h"
#include "common/tensor/tensor.h"

namespace cohort {

// Variables of a model, by name, that live in the memory of one device with their optimizer slots.
// Programs that are compiled with them (CompileOptions) read and update them there; nothing is copied but
// by the functions below, which must not be called while a step runs. Not thread-safe.
class ResidentVariables {
 public:
  struct Variable {
    DeviceVariable at;
    Dims dims;
    const OptimizerRule* rule = nullptr;  // null: not trainable
    size_t slots = 0;
    DeviceMemory memory;  // the value, then the slots
  };

  explicit ResidentVariables(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  // Uploads a variable with fresh slots. `rule` outlives this object; null if the variable is not trained.
  // Errors: AlreadyExists; ResourceExhausted: the device lacks memory; those of the device.
  absl::Status Add(std::string_view name, const Tensor& value, const OptimizerRule* rule);
  // Returns the value, then the slots. Errors: NotFound; those of the device.
  absl::StatusOr<std::vector<Tensor>> Download(std::string_view name) const;
  // Replaces what Download returns. Errors: NotFound; InvalidArgument for tensors of another number,
  // dtype or shape; those of the device.
  absl::Status Upload(std::string_view name, std::span<const Tensor> tensors);

  // Finds the variable of a program. Errors: NotFound; InvalidArgument for one of another dtype or
  // shape; both name it. The pointer stays valid.
  absl::StatusOr<const Variable*> Find(const VariableDecl& decl) const;
  const std::shared_ptr<Device>& device() const { return device_; }
  // Bytes of the device's memory.
  size_t memory_bytes() const;

 private:
  absl::StatusOr<const Variable*> FindByName(std::string_view name) const;

  const std::shared_ptr<Device> device_;
  std::map<std::string, Variable, std::less<>> variables_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_RESIDENT_VARIABLES_H_
