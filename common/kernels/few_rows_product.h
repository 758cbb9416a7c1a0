#ifndef COHORT_COMMON_KERNELS_FEW_ROWS_PRODUCT_H_
#define COHORT_COMMON_KERNELS_FEW_ROWS_PRODUCT_H_

#include <cstdint>

namespace cohort {

// Products of a large matrix with few rows: the forward pass of a dense layer and the gradient of
// its kernel, in a small batch. Memory limits them: a matrix that no cache holds is read or written
// once, in order. A product for many rows packs it first, which moves it twice. Vector code; all
// matrices are dense and row-major. The sum of an element has a fixed order, so its bits do not
// depend on how the work is split.

// The most rows for which these functions are worthwhile.
inline constexpr int64_t kFewRows = 16;
// The least size of the large matrix, in elements.
inline constexpr int64_t kLargeMatrix = int64_t{1} << 20;

// Columns [begin, end) of y[rows, n] = x[rows, k] matrix[k, n]. 1 to kFewRows rows.
void FewRowsTimesMatrix(int64_t rows, int64_t n, int64_t k, const float* x, const float* matrix,
                        float* y, int64_t begin, int64_t end);

// Rows [begin, end) of sum[m, n] = transpose(x[rows, m]) y[rows, n]. 1 to kFewRows rows.
void SumOfOuterProducts(int64_t rows, int64_t m, int64_t n, const float* x, const float* y,
                        float* sum, int64_t begin, int64_t end);

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_FEW_ROWS_PRODUCT_H_
