#ifndef COHORT_COMMON_KERNELS_GRID_ZERO_TAIL_H_
#define COHORT_COMMON_KERNELS_GRID_ZERO_TAIL_H_

#include <cstdint>

#include "common/device/host_device.h"

namespace cohort::COHORT_GRID {

// Zeros after the current elements of a value. A matrix product is planned for full capacity: what
// an earlier batch left there must not be summed.
template <typename T>
struct ZeroTailBody {
  T* data;
  int64_t from, to;

  COHORT_HD int64_t items() const { return to - from; }
  COHORT_HD void operator()(int64_t i) const { data[from + i] = T{0}; }
};

}  // namespace cohort::COHORT_GRID

#endif  // COHORT_COMMON_KERNELS_GRID_ZERO_TAIL_H_
