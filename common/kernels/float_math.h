#ifndef COHORT_COMMON_KERNELS_FLOAT_MATH_H_
#define COHORT_COMMON_KERNELS_FLOAT_MATH_H_

#include <cstdint>

#include "common/tensor/philox.h"

namespace cohort {

// The expensive float32 loops, with the widest vectors that the processor has (Highway's dynamic
// dispatch; an error of at most 4 ulp). The result of an element never depends on its position:
// the elements left over at the end go through a whole vector too. Infinities, NaN and signed zeros
// behave as in <cmath>. y may be equal to x.
void ExpFloat(const float* x, float* y, int64_t n);
void LogFloat(const float* x, float* y, int64_t n);
void SigmoidFloat(const float* x, float* y, int64_t n);
void TanhFloat(const float* x, float* y, int64_t n);
void ErfFloat(const float* x, float* y, int64_t n);
// y = log(1 + exp(x)).
void SoftplusFloat(const float* x, float* y, int64_t n);

// Over each of `rows` rows of n values; sums are taken in a fixed order.
void SoftmaxRowsFloat(const float* x, float* y, int64_t rows, int64_t n);
void LogSoftmaxRowsFloat(const float* x, float* y, int64_t rows, int64_t n);
// y[row] = log(sum(exp(x[row]))).
void LogSumExpRowsFloat(const float* x, float* y, int64_t rows, int64_t n);

// y = max(x, 0) - x z + log(1 + exp(-|x|)) of logits x and labels z.
void SigmoidCrossEntropyFloat(const float* labels, const float* logits, float* y, int64_t n);

// The words of `blocks` Philox blocks with counters {first_block + i, counter[1], counter[2],
// counter[3]}: 4 * blocks words.
void PhiloxWords(PhiloxBlock counter, PhiloxKey key, int64_t blocks, uint32_t* words);

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_FLOAT_MATH_H_
