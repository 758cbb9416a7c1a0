#ifndef COHORT_COMMON_OPTIMIZERS_OPTIMIZER_RULES_H_
#define COHORT_COMMON_OPTIMIZERS_OPTIMIZER_RULES_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/tensor/dtype.h"

namespace cohort {

namespace v1 {
class OptimizerSpec;
}

// Optimizer state beside a variable: one tensor of the variable's shape and dtype.
struct SlotInfo {
  std::string name;          // as Keras names it: "momentum", "velocity", ...
  double initial_value = 0;  // of every element
};

inline constexpr int kMaxSlots = 3;

// Where a range of a variable and its slots is read and written. `out` pointers are equal to the
// `in` pointers (in place) or name memory that overlaps none of them (a fresh copy-on-write block).
struct UpdateTarget {
  DType dtype = DType::kInvalid;  // kFloat32 or kFloat64; of everything, the gradient too
  const void* variable_in = nullptr;
  void* variable_out = nullptr;
  const void* slots_in[kMaxSlots] = {};  // in the order of OptimizerRule::slots()
  void* slots_out[kMaxSlots] = {};
};

// A gradient for every element of a range.
struct DenseUpdate {
  UpdateTarget target;
  int64_t elements = 0;
  // Of the *summed* loss, `elements` values, aligned to nothing: it may lie where it was received.
  const void* gradient = nullptr;
  double weight = 1;  // what the gradient is divided by; 0 counts as a gradient of zeros
  uint64_t step = 0;  // place + ordinal: from 0, as Keras' `iterations`
};

// A gradient for some rows of a range of rows.
struct RowsUpdate {
  UpdateTarget target;
  int64_t first_row = 0;           // the key of the range's first row
  int64_t rows = 0;                // in the range
  int64_t row_elements = 0;        // of one row
  std::span<const int64_t> keys;   // ascending, no key twice, all in [first_row, first_row + rows)
  const void* gradient = nullptr;  // keys.size() rows
  double weight = 1;
  uint64_t step = 0;
};

// The update rule of an optimizer: a pure function of variable, slots, gradient and step, whose
// math is Keras 3's to the order of operations (keras/src/optimizers). Elementwise: the result
// never depends on how a variable was cut into ranges. Holds no state; thread-safe.
class OptimizerRule {
 public:
  // Errors: InvalidArgument that names the field; Unimplemented for an optimizer that this build
  // lacks.
  static absl::StatusOr<std::unique_ptr<OptimizerRule>> Create(const v1::OptimizerSpec& spec);
  virtual ~OptimizerRule() = default;

  virtual std::span<const SlotInfo> slots() const = 0;

  // Whether ApplyRows changes nothing but the rows that it is given keys of (`lazy`, or SGD without
  // momentum and weight decay): blocks without a key then need no call. Otherwise *every* row of
  // the shard must be passed, since Keras decays them all.
  virtual bool touches_only_keys() const = 0;

  // The learning rate of a step: the seam for schedules.
  virtual double LearningRate(uint64_t step) const = 0;

  virtual void ApplyDense(const DenseUpdate& update) const = 0;
  // Out of place, rows that do not change are copied, so that the output range is whole.
  virtual void ApplyRows(const RowsUpdate& update) const = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_OPTIMIZER_RULES_H_
