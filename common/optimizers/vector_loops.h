#ifndef COHORT_COMMON_OPTIMIZERS_VECTOR_LOOPS_H_
#define COHORT_COMMON_OPTIMIZERS_VECTOR_LOOPS_H_

#include <cstddef>

namespace cohort {

// Loops with the widest vectors that the processor has, beside those of the rules (rules/).

// Returns true if any of `count` values is NaN or infinite. `values` need not be aligned.
bool AnyNonFinite(const float* values, size_t count);
bool AnyNonFinite(const double* values, size_t count);

// c = a b: rows x inner times inner x columns, row by row. c overlaps neither.
void MultiplyMatrices(const float* a, const float* b, float* c, size_t rows, size_t inner,
                      size_t columns);
void MultiplyMatrices(const double* a, const double* b, double* c, size_t rows, size_t inner,
                      size_t columns);

// Returns Highway's name of the instruction set that all loops of this room use on this processor
// ("AVX2"). It is part of the numeric fingerprint of a parameter server.
const char* OptimizerInstructionSet();
// Returns the library of the loops and its version: "highway 1.0.3".
const char* OptimizerLibraries();

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_VECTOR_LOOPS_H_
