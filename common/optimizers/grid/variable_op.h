#ifndef COHORT_COMMON_OPTIMIZERS_GRID_VARIABLE_OP_H_
#define COHORT_COMMON_OPTIMIZERS_GRID_VARIABLE_OP_H_

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/device/grid.h"
#include "common/optimizers/variable_ops.h"

namespace cohort::COHORT_GRID {

using VariableOpOr = absl::StatusOr<std::unique_ptr<VariableOp>>;

// What an op touches, beside its body.
struct VariableOpPlan {
  std::string name;
  int64_t most_items = 0;
  std::vector<MemoryRange> reads, writes;
};

// The op of one body. `make` returns the body of a run.
template <typename Body, typename Make>
class GridVariableOp : public VariableOp {
 public:
  GridVariableOp(VariableOpPlan plan, Make make) : plan_(std::move(plan)), make_(std::move(make)) {}

  size_t body_bytes() const override { return BodyBytes<Body>(); }
  void WriteBody(const VariableRun& run, uint8_t* to) const override {
    const Body body = make_(run);
    std::memcpy(to, &body, sizeof(Body));
  }
  void AddTo(GraphPlan* plan, const uint8_t* body) const override {
    std::vector<MemoryRange> reads = plan_.reads;
    reads.push_back({body, sizeof(Body)});
    plan->Begin(plan_.name, std::move(reads), plan_.writes);
    plan->Add(LaunchOf<Body>(body, plan_.most_items));
  }

 private:
  const VariableOpPlan plan_;
  const Make make_;
};

// Body is deduced: CUDA's compiler cannot name a kernel whose type is written in terms of a lambda.
template <typename Body, typename Make>
std::unique_ptr<VariableOp> MakeVariableOpOf(Body (Make::*)(const VariableRun&) const,
                                             VariableOpPlan plan, Make make) {
  return std::make_unique<GridVariableOp<Body, Make>>(std::move(plan), std::move(make));
}
template <typename Make>
std::unique_ptr<VariableOp> MakeVariableOp(VariableOpPlan plan, Make make) {
  return MakeVariableOpOf(&Make::operator(), std::move(plan), std::move(make));
}

// The elements of the rows that keys name, row by row; without keys, those of all rows.
struct RowWalk {
  const int64_t* keys;
  int64_t first_row;
  int64_t row_elements;
  int64_t rows;  // in this run

  static RowWalk Of(const DeviceVariable& variable, const DeviceKeys& keys,
                    const VariableRun& run) {
    return {keys.keys, variable.first_row, variable.row_elements,
            keys.keys != nullptr ? run.keys : variable.rows};
  }
  COHORT_HD int64_t items() const { return rows * row_elements; }
  // Where element `item` lies in the variable.
  COHORT_HD int64_t At(int64_t item) const {
    if (keys == nullptr) return item;
    return (keys[item / row_elements] - first_row) * row_elements + item % row_elements;
  }
};

inline int64_t MostItems(const DeviceVariable& variable, const DeviceKeys& keys) {
  return keys.keys != nullptr ? keys.capacity * variable.row_elements : variable.elements();
}
inline MemoryRange RangeOfKeys(const DeviceKeys& keys) {
  return {keys.keys, static_cast<size_t>(keys.capacity) * sizeof(int64_t)};
}
inline MemoryRange RangeOfValue(const DeviceVariable& variable) {
  return {variable.value, variable.bytes()};
}
// Pushed values, or rows that were read.
inline MemoryRange RangeOfRows(const DeviceVariable& variable, const DeviceKeys& keys,
                               const void* values) {
  return {values, static_cast<size_t>(MostItems(variable, keys)) * SizeOf(variable.dtype)};
}

VariableOpOr MakeUpdate(const OptimizerRule* rule, const DeviceVariable& variable,
                        const DevicePush& gradient, const double* scale);

}  // namespace cohort::COHORT_GRID

#endif  // COHORT_COMMON_OPTIMIZERS_GRID_VARIABLE_OP_H_
