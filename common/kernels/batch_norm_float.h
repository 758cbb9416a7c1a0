#ifndef COHORT_COMMON_KERNELS_BATCH_NORM_FLOAT_H_
#define COHORT_COMMON_KERNELS_BATCH_NORM_FLOAT_H_

#include <cstdint>

namespace cohort {

// The loops of batch normalization over `rows` rows of float32 channels, as vector code. Four rows
// are added in float32, the rest in float64. Differences from a value of the channel itself keep
// the variance exact if the mean is large.

// first[c] += x - shift and second[c] += (x - shift)^2.
void AddMomentsFloat(const float* x, const float* shift, int64_t rows, int64_t channels,
                     double* first, double* second);
// first[c] += g and second[c] += g (x - mean).
void AddGradientsFloat(const float* g, const float* x, const float* mean, int64_t rows,
                       int64_t channels, double* first, double* second);
// y = x scale + offset.
void ScaleRowsFloat(const float* x, const float* scale, const float* offset, int64_t rows,
                    int64_t channels, float* y);
// dx = scale g + (slope (x - mean) + offset). dx may be g.
void GradientRowsFloat(const float* g, const float* x, const float* mean, const float* scale,
                       const float* slope, const float* offset, int64_t rows, int64_t channels,
                       float* dx);

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_BATCH_NORM_FLOAT_H_
