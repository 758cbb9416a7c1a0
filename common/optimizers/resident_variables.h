#ifndef COHORT_COMMON_OPTIMIZERS_RESIDENT_VARIABLES_H_
#define COHORT_COMMON_OPTIMIZERS_RESIDENT_VARIABLES_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"
#include "common/device/device.h"
#include "common/graph/program.h"
#include "common/optimizers/device_copies.h"
#include "common/optimizers/variable_ops.h"
#include "common/tensor/tensor.h"

namespace cohort {

// Applies the updates that a step has left in the memory of a device. Implemented by the executable
// that ran the step.
class ResidentUpdate {
 public:
  virtual ~ResidentUpdate() = default;
  // Updates the variables of one group (ResidentVariables::Variable::group), and waits for it.
  // `step`: as in DenseUpdate. Errors: those of the device; then the variables of the group are
  // undefined.
  virtual absl::Status Apply(uint32_t group, uint64_t step) = 0;
};

// The group of a variable that no ResidentUpdate may change.
inline constexpr uint32_t kNoGroup = ~uint32_t{0};

// Variables of a model, by name, that live in the memory of one device with their optimizer slots.
// Programs that are compiled with them (CompileOptions) read and update them there; nothing is
// copied but by the functions below. Those that copy a variable must not be called while a step
// uses it. Thread-safe.
class ResidentVariables {
 public:
  struct Variable {
    DeviceVariable at;
    Dims dims;
    std::shared_ptr<const OptimizerRule> rule;  // null: not trainable
    size_t slots = 0;
    uint32_t group = 0;  // variables of one group are updated together, by ResidentUpdate
    // The rows that slots have; DeviceVariable::slots points to the first of them.
    int64_t first_slot_row = 0, slot_rows = 0;
    DeviceMemory memory, slot_memory;  // the value lies in the first, the slots in the second
  };
  // What Reserve makes room for.
  struct Spec {
    std::string name;
    DType dtype = DType::kInvalid;
    Dims dims;
    std::shared_ptr<const OptimizerRule> rule;  // null: not trainable
    uint32_t group = 0;
    int64_t first_slot_row = 0, slot_rows = 0;  // for which slots are needed here; 0: none
  };

  explicit ResidentVariables(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  // Makes room for a variable, whose contents are undefined. Keeps one that is there with the same
  // dtype, dims and group, and its rule; if it lacks slots, it gets others, which are undefined.
  // Errors: AlreadyExists: it is there and differs; ResourceExhausted: the device lacks memory.
  absl::Status Reserve(const Spec& spec);

  // Copies rows of the value (slot -1) or of a slot. The bytes are whole rows. Errors: NotFound,
  // InvalidArgument for rows or a slot that the variable has not; those of the device.
  absl::Status WriteRows(std::string_view name, int slot, int64_t first_row,
                         std::span<const uint8_t> from);
  absl::Status ReadRows(std::string_view name, int slot, int64_t first_row,
                        std::span<uint8_t> to) const;
  // Copies rows of the value from another device of the same kind. Errors: those of WriteRows.
  absl::Status CopyRows(std::string_view name, int64_t first_row, int64_t rows,
                        const ResidentVariables& from);

  // Finds the variable of a program. Errors: NotFound; InvalidArgument for one of another dtype or
  // shape; both name it. The pointer stays valid, and what it points to constant.
  absl::StatusOr<const Variable*> Find(const VariableDecl& decl) const;
  // The same by name. Errors: NotFound.
  absl::StatusOr<const Variable*> Find(std::string_view name) const;
  const std::shared_ptr<Device>& device() const { return device_; }
  // Bytes of the device's memory.
  size_t memory_bytes() const;

 private:
  absl::Status ReserveSlots(const Spec& spec, Variable* variable)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The address of rows. Errors: those of WriteRows.
  absl::StatusOr<uint8_t*> AddressOf(std::string_view name, int slot, int64_t first_row,
                                     size_t bytes) const;

  const std::shared_ptr<Device> device_;
  mutable Mutex mu_;
  std::map<std::string, Variable, std::less<>> variables_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_RESIDENT_VARIABLES_H_
