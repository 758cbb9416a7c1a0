#ifndef COHORT_COMMON_COLLECTIVE_CHOOSE_H_
#define COHORT_COMMON_COLLECTIVE_CHOOSE_H_

#include <absl/status/statusor.h>

#include <cstdint>

#include "common/collective/collective.h"

namespace cohort {

enum class AlgorithmKind : uint8_t { kRing, kDirect, kExchange };

// True if this build has NCCL: CMake has found it (COHORT_NCCL).
bool HasNccl();

// FailedPrecondition, which says what to use instead, if `communication` is not available for
// buffers in host memory or in this build.
absl::Status CheckCommunication(Communication communication);

// The algorithm of an operation. All ranks choose the same one, because they see the same call. The
// rule for `auto` (tests/benchmarks/RESULTS.md has the measurements):
//
//   all-reduce, all contributions together at most 64 KB   exchange: one hop
//   up to 4 ranks, or parts of at most 256 KB              direct: two hops
//   otherwise                                              ring: each rank talks to two others only
//
// `direct` uses exchange by the same rule, because the sums have the same bits.
// Error: InvalidArgument if the ring would have to keep places of one rank apart.
absl::StatusOr<AlgorithmKind> ChooseAlgorithm(const CollectiveCall& call, int ranks);

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_CHOOSE_H_
