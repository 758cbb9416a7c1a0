#ifndef COHORT_COMMON_OPTIMIZERS_VARIABLE_OPS_H_
#define COHORT_COMMON_OPTIMIZERS_VARIABLE_OPS_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/device/graph_plan.h"
#include "common/optimizers/optimizer_rules.h"
#include "common/tensor/dtype.h"

namespace cohort {

// What a step does with variables that lie in the memory of a device: it reads rows, updates values
// and slots by the rules of optimizers, and applies the other kinds of pushes. Each of these is an
// op of the step's graph (common/device/graph_plan.h), so that nothing but keys and constants is
// uploaded for it. All pointers below are addresses of the device.

// A variable, or a range of its rows, with the slots of its optimizer.
struct DeviceVariable {
  std::string name;               // for people
  DType dtype = DType::kInvalid;  // all tensors have it
  int64_t first_row = 0;          // the key of the first row here
  int64_t rows = 1;               // a scalar has one row with one element
  int64_t row_elements = 1;
  void* value = nullptr;
  void* slots[kMaxSlots] = {};  // in the order of OptimizerRule::slots()

  int64_t elements() const { return rows * row_elements; }
  size_t bytes() const { return static_cast<size_t>(elements()) * SizeOf(dtype); }
};

// The rows that a step reads or writes.
struct DeviceKeys {
  const int64_t* keys = nullptr;  // as those of RowsUpdate; null: all rows, without keys
  int64_t capacity = 0;           // most keys in one run
  bool operator==(const DeviceKeys&) const = default;
};

// Values that are pushed to a variable: a row for each key, or all rows.
struct DevicePush {
  const void* values = nullptr;  // in the variable's dtype
  DeviceKeys rows;
  bool operator==(const DevicePush&) const = default;
};

// What changes from run to run.
struct VariableRun {
  uint64_t step = 0;  // as in DenseUpdate
  int64_t keys = 0;   // the number of keys
};

// One op on a variable. The graph is made once: what depends on the run lies in a *body* in the
// memory of the device, which is uploaded before.
class VariableOp {
 public:
  virtual ~VariableOp() = default;

  // A multiple of 16.
  virtual size_t body_bytes() const = 0;
  // Writes the body of a run to memory of the host.
  virtual void WriteBody(const VariableRun& run, uint8_t* to) const = 0;
  // Adds the op, whose body will lie at this address of the device.
  virtual void AddTo(GraphPlan* plan, const uint8_t* body) const = 0;
};

// Makes the ops for one kind of device. Errors of all functions: Unimplemented for a dtype without
// a kernel. Constant and thread-safe.
class VariableOps {
 public:
  // Errors: Unimplemented: this build has no kernels for the kind.
  static absl::StatusOr<const VariableOps*> Of(std::string_view kind);

  // Copies the rows of the keys to `to`, one after another.
  virtual absl::StatusOr<std::unique_ptr<VariableOp>> ReadRows(const DeviceVariable& from,
                                                               const DeviceKeys& rows,
                                                               void* to) const = 0;

  // Writes the factor of gradients of the summed loss: 1 / weight, or 0 for a weight of 0.
  // `weight`: a float32 or float64 scalar.
  virtual absl::StatusOr<std::unique_ptr<VariableOp>> GradientScale(const void* weight, DType dtype,
                                                                    double* to) const = 0;

  // Updates a variable and its slots as `rule` does on the CPU: ApplyDense, or ApplyRows with keys.
  // A gradient whose `scale` is 0 counts as zeros. `rule` outlives the op.
  virtual absl::StatusOr<std::unique_ptr<VariableOp>> Update(const OptimizerRule* rule,
                                                             const DeviceVariable& variable,
                                                             const DevicePush& gradient,
                                                             const double* scale) const = 0;

  // PushKind::kEma: value * momentum + pushed * (1 - momentum).
  virtual absl::StatusOr<std::unique_ptr<VariableOp>> Average(const DeviceVariable& variable,
                                                              const DevicePush& push,
                                                              double momentum) const = 0;
  // PushKind::kAssignAdd.
  virtual absl::StatusOr<std::unique_ptr<VariableOp>> AssignAdd(const DeviceVariable& variable,
                                                                const DevicePush& push) const = 0;

 protected:
  ~VariableOps() = default;
};

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_VARIABLE_OPS_H_
