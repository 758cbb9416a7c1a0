#ifndef COHORT_COMMON_OPTIMIZERS_OPTIMIZER_RULES_H_
#define COHORT_COMMON_OPTIMIZERS_OPTIMIZER_RULES_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/tensor/dtype.h"

namespace cohort {

namespace v1 {
class OptimizerSpec;
class VariableSpec;
}  // namespace v1

class LearningRates;
struct RuleUpdate;  // common/optimizers/rules/rule_update.h

// Optimizer state beside a variable: one tensor of the variable's shape and dtype.
struct SlotInfo {
  std::string name;          // as Keras names it: "momentum", "velocity", ...
  double initial_value = 0;  // each element has it
  bool is_copy = false;      // instead: it begins as the variable does
  bool by_row = false;       // it has one number for each row of the variable (axis 0)
  // Memory has the upper halves of its float32 values (bfloat16). Checkpoints have it in the
  // variable's dtype.
  bool is_bfloat16 = false;

  // The bytes of a row of a variable in the slot: in memory, and in checkpoints.
  size_t row_bytes(DType dtype, int64_t row_elements) const {
    if (by_row) return SizeOf(dtype);
    return static_cast<size_t>(row_elements) * (is_bfloat16 ? sizeof(uint16_t) : SizeOf(dtype));
  }
  size_t stored_row_bytes(DType dtype, int64_t row_elements) const {
    return SizeOf(dtype) * (by_row ? 1 : static_cast<size_t>(row_elements));
  }
};

inline constexpr int kMaxSlots = 5;

// The slot of `use_ema`: the moving average of the variable.
inline constexpr char kAverageSlot[] = "average";
// Returns its index; nullopt if the optimizer keeps no average.
std::optional<size_t> SlotOfAverage(std::span<const SlotInfo> slots);

// What the update of an element depends on, beside its own gradient and state.
enum class UpdateScope {
  kElement,   // nothing
  kRow,       // its row
  kVariable,  // the whole variable, as the norms of LAMB
};

// The memory in which a range of a variable and its slots is read and written. The `out` pointers
// equal the `in` pointers (in place), or point to memory that overlaps none of them (a fresh
// copy-on-write block).
struct UpdateTarget {
  DType dtype = DType::kInvalid;  // kFloat32 or kFloat64, for all tensors and the gradient
  const void* variable_in = nullptr;
  void* variable_out = nullptr;
  const void* slots_in[kMaxSlots] = {};  // in the order of OptimizerRule::slots()
  void* slots_out[kMaxSlots] = {};
  // The new values of the variable are more than the caches hold, and they are not read soon: they
  // need not go through the caches. Only where they are written differs.
  bool past_caches = false;
};

// A gradient for every element of a range.
struct DenseUpdate {
  UpdateTarget target;
  int64_t elements = 0;
  // The gradient of the *summed* loss, `elements` values without alignment: it may lie in the
  // buffer in which it was received.
  const void* gradient = nullptr;
  double weight = 1;  // the divisor of the gradient; 0 counts as a gradient of zeros
  uint64_t step = 0;  // place + ordinal: from 0, as Keras' `iterations`
  // Set to true if the gradient contains a NaN or an infinity and the weight is not 0; otherwise
  // not written. May be null.
  bool* non_finite = nullptr;
};

// A gradient for some rows of a range of rows.
struct RowsUpdate {
  UpdateTarget target;
  int64_t first_row = 0;           // the key of the range's first row
  int64_t rows = 0;                // in the range
  int64_t row_elements = 0;        // in one row
  std::span<const int64_t> keys;   // ascending, no key twice, all in [first_row, first_row + rows)
  const void* gradient = nullptr;  // keys.size() rows
  double weight = 1;
  uint64_t step = 0;
};

// The update rule of an optimizer: a pure function of variable, slots, gradient and step. It
// computes as Keras 3 does, in the same order of operations (keras/src/optimizers). Ranges are as
// large as its scope demands; beyond that, the result never depends on how a variable was cut into
// ranges. It holds no state and is thread-safe. common/optimizers/optimizers.h has the optimizers
// by name.
class OptimizerRule {
 public:
  // Completes the specification first. With a variable, the rule is the one for it alone: it knows
  // its name and shape, and applies its constraint. `set`: rates that count instead of those of the
  // specification, null: none; it outlives the rule. Errors: those of CompleteOptimizer and
  // Constraint::Create.
  static absl::StatusOr<std::unique_ptr<OptimizerRule>> Create(
      const v1::OptimizerSpec& spec, const v1::VariableSpec* variable = nullptr,
      const LearningRates* set = nullptr);
  virtual ~OptimizerRule() = default;

  virtual std::span<const SlotInfo> slots() const = 0;

  // kRow: ranges have whole rows. kVariable: a range is the variable.
  virtual UpdateScope scope() const { return UpdateScope::kElement; }

  // Returns true if ApplyRows changes only the rows of the keys (`lazy`, or a rule such as SGD
  // without momentum and weight decay): blocks without a key then need no call. Otherwise the
  // caller must pass *every* row of the shard, because Keras decays them all.
  virtual bool touches_only_keys() const = 0;

  // Returns the learning rate of a step: that which the job has set, or by the optimizer's
  // schedule.
  virtual double LearningRate(uint64_t step) const = 0;

  // Returns what devices need to update an element in this step, or nothing if they cannot.
  // `dtype`: kFloat32 or kFloat64.
  virtual RuleUpdate UpdateOfStep(DType dtype, uint64_t step) const = 0;

  virtual void ApplyDense(const DenseUpdate& update) const = 0;
  // If the update is not in place, rows that do not change are copied, so that the output range is
  // complete.
  virtual void ApplyRows(const RowsUpdate& update) const = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_OPTIMIZER_RULES_H_
