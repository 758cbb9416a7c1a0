#ifndef COHORT_COMMON_KERNELS_RANDOM_KEY_H_
#define COHORT_COMMON_KERNELS_RANDOM_KEY_H_

#include <cstdint>

namespace cohort {

// What the random ops of a run are keyed by (with the op's own seed, its number in the program and
// the element's index): never a worker, thread or attempt.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t closure = 0;
  uint32_t ordinal = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_RANDOM_KEY_H_
