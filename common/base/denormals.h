#ifndef COHORT_COMMON_BASE_DENORMALS_H_
#define COHORT_COMMON_BASE_DENORMALS_H_

namespace cohort {

// Numbers below 1.2e-38 (float32) and 2.2e-308 (float64) that are not zero are denormal. A
// processor may take a hundred cycles for an operation with one, and optimizers' slots decay into
// them: the moments of a weight without gradients shrink by a factor in each step.

// From now on this thread takes denormal numbers for zero and makes none, and so does each thread
// that it starts, with those that these start. Every program calls it first (PrepareProcess); so do
// the entry points of the C++ API.
void FlushDenormals();

// True if this thread does.
bool FlushesDenormals();

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_DENORMALS_H_
