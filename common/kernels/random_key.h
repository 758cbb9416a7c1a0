#ifndef COHORT_COMMON_KERNELS_RANDOM_KEY_H_
#define COHORT_COMMON_KERNELS_RANDOM_KEY_H_

#include <cstdint>

namespace cohort {

// The key of the random ops of a run, together with the seed of the op, its number in the program
// and the index of the element. It never names a worker, thread, attempt or closure id, so a step
// that runs again after a rollback draws the same numbers.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t place = 0;  // the place of the closure's first step in the job
  uint32_t ordinal = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_RANDOM_KEY_H_
