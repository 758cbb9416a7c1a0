#ifndef COHORT_COMMON_EXCHANGE_EXCHANGE_TEST_ALLOCATIONS_H_
#define COHORT_COMMON_EXCHANGE_EXCHANGE_TEST_ALLOCATIONS_H_

#include <cstdint>

namespace cohort::exchange_test {

// Counts calls of operator new in all threads while counting is on.
void CountAllocations(bool on);
int64_t CountedAllocations();

}  // namespace cohort::exchange_test

#endif  // COHORT_COMMON_EXCHANGE_EXCHANGE_TEST_ALLOCATIONS_H_
