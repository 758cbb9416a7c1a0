#ifndef COHORT_COMMON_TESTING_COUNTED_TEST_CALLS_H_
#define COHORT_COMMON_TESTING_COUNTED_TEST_CALLS_H_

#include <cstdint>

namespace cohort::testing {

// Counts all calls of operator new in the process, and all calls of pthread_mutex_lock except those
// of oneDNN (which takes one lock in every sgemm). Linking counted_test_calls.cc replaces both
// functions.
void StartCounting();  // from 0
void StopCounting();
void ResumeCounting();
int64_t CountedAllocations();
int64_t CountedLocks();
int64_t CountedOneDnnLocks();

}  // namespace cohort::testing

#endif  // COHORT_COMMON_TESTING_COUNTED_TEST_CALLS_H_
