#ifndef COHORT_COMMON_EXCHANGE_EXCHANGE_TEST_ALLOCATIONS_H_
#define COHORT_COMMON_EXCHANGE_EXCHANGE_TEST_ALLOCATIONS_H_

#include <cstdint>

namespace cohort::exchange_test {

// Calls of operator new while counting is on, in all threads.
void CountAllocations(bool on);
int64_t CountedAllocations();

}  // namespace cohort::exchange_test

#endif  // COHORT_COMMON_EXCHANGE_EXCHANGE_TEST_ALLOCATIONS_H_
