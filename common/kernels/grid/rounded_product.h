#ifndef COHORT_COMMON_KERNELS_GRID_ROUNDED_PRODUCT_H_
#define COHORT_COMMON_KERNELS_GRID_ROUNDED_PRODUCT_H_

#include <memory>

#include "common/graph/mixed_precision.h"
#include "common/kernels/grid/grid.h"

namespace cohort::COHORT_GRID {

// How rounded operands lie in memory.
enum class RoundedAs : uint8_t {
  kBits,   // 16 bits each, for products of the device's library
  kFloats  // floats with the rounded values, for loops
};

// Rounds the operands (inputs 0 and 1, float32) of a node by its attribute `precision` into scratch
// memory, and runs `product` on them. `product` reads its inputs in this form. It may write after
// their current elements.
std::unique_ptr<DeviceKernel> OnRoundedOperands(const Node& node, const Program& program,
                                                RoundedAs form,
                                                std::unique_ptr<DeviceKernel> product);

}  // namespace cohort::COHORT_GRID

#endif  // COHORT_COMMON_KERNELS_GRID_ROUNDED_PRODUCT_H_
