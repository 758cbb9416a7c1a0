#ifndef COHORT_COMMON_OS_PROCESS_USAGE_H_
#define COHORT_COMMON_OS_PROCESS_USAGE_H_

#include <cstdint>

namespace cohort {

// What this process uses, as the system counts it. A value that cannot be read is 0.
struct ProcessUsage {
  uint64_t memory_bytes = 0;  // memory, with what it shares with other processes
  double cpu_seconds = 0;     // all its threads, also in the kernel
  uint64_t open_files = 0;    // descriptors
};

ProcessUsage ReadProcessUsage();

}  // namespace cohort

#endif  // COHORT_COMMON_OS_PROCESS_USAGE_H_
