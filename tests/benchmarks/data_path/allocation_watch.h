#ifndef COHORT_TESTS_BENCHMARKS_DATA_PATH_ALLOCATION_WATCH_H_
#define COHORT_TESTS_BENCHMARKS_DATA_PATH_ALLOCATION_WATCH_H_

#include <cstdint>
#include <string>

namespace cohort::bench {

// Counts calls of operator new in all threads of this program, and tells ours from gRPC's: of the
// frames that called it, the innermost one that lies neither in the C++ library nor in protobuf
// nor in Abseil decides: in this program (what is linked statically, and headers that are compiled
// into it) it is ours, in gRPC's shared libraries gRPC's. So a std::vector, a message or a status
// of ours is ours, whichever library grows it. malloc called by C code (gRPC's slices) is gRPC's
// and not seen.
struct AllocationCounts {
  int64_t ours = 0;
  int64_t grpc = 0;
  std::string first_of_ours;  // call stacks of the first ones, a few lines each; "": none
};

void StartCountingAllocations();
AllocationCounts StopCountingAllocations();

}  // namespace cohort::bench

#endif  // COHORT_TESTS_BENCHMARKS_DATA_PATH_ALLOCATION_WATCH_H_
