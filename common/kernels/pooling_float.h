#ifndef COHORT_COMMON_KERNELS_POOLING_FLOAT_H_
#define COHORT_COMMON_KERNELS_POOLING_FLOAT_H_

#include <cstdint>

namespace cohort {

// The gradient of one window of max_pool, for all channels: g goes to the first maximum among the
// pixels x + pixels[0], ..., x + pixels[count - 1], the first NaN before all numbers. Adds to dx at
// these pixels, or without `add` writes it there. Vector code.
void MaxPoolGradWindow(const float* x, const int64_t* pixels, int64_t count, const float* g,
                       float* dx, int64_t channels, bool add);

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_POOLING_FLOAT_H_
