#ifndef COHORT_COMMON_EXEC_STEADY_STATE_COUNTERS_H_
#define COHORT_COMMON_EXEC_STEADY_STATE_COUNTERS_H_

#include <cstdint>

namespace cohort::testing {

// Counts calls of operator new by anybody in the process, and of pthread_mutex_lock by anybody but
// oneDNN (which takes one of its own in every sgemm). A program that links steady_state_counters.cc
// has both functions replaced.
void StartCounting();  // from 0
void StopCounting();
int64_t CountedAllocations();
int64_t CountedLocks();
int64_t CountedOneDnnLocks();

}  // namespace cohort::testing

#endif  // COHORT_COMMON_EXEC_STEADY_STATE_COUNTERS_H_
