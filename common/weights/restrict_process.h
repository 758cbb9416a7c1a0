#ifndef COHORT_COMMON_WEIGHTS_RESTRICT_PROCESS_H_
#define COHORT_COMMON_WEIGHTS_RESTRICT_PROCESS_H_

#include <absl/status/status.h>

#include <cstdint>

namespace cohort {

// Takes from this process, permanently, what reading one file into its standard output does not
// need: memory, processor time and bytes to write beyond a multiple of `output_bytes`, core dumps,
// and all system calls but those for memory, for reading and for writing to open files. Files can
// still be opened for reading. Errors: Unavailable if the kernel refuses.
absl::Status RestrictProcess(uint64_t output_bytes);

}  // namespace cohort

#endif  // COHORT_COMMON_WEIGHTS_RESTRICT_PROCESS_H_
