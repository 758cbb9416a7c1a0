#ifndef COHORT_COMMON_KERNELS_MATMUL_FLOAT_H_
#define COHORT_COMMON_KERNELS_MATMUL_FLOAT_H_

#include <cstdint>

namespace cohort {

// Returns true if MultiplyByRowsFloat is faster than oneDNN's sgemm, which first copies b: there
// are few rows to pay for the copy.
bool SuitsMultiplyByRows(int64_t m, int64_t n, int64_t k);

// Rows [begin, end) of c[m, n] = a[m, k] b, where b is stored as [n, k]. Each sum is in order of k,
// each product added with one rounding if the processor can, whatever the rows. Vector code.
void MultiplyByRowsFloat(int64_t n, int64_t k, const float* a, const float* b, float* c,
                         int64_t begin, int64_t end);

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_MATMUL_FLOAT_H_
