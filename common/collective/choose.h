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
//   two ranks, or parts of at most 256 KB                  direct: two hops
//   otherwise                                              ring: each rank talks to two others only
//
// `direct` uses exchange by the same rule, because the sums have the same bits.
// Error: InvalidArgument if the ring would have to keep places of one rank apart.
absl::StatusOr<AlgorithmKind> ChooseAlgorithm(const CollectiveCall& call, int ranks);

// How replicas that own the variables exchange the dense gradients of a synchronous step, for
// `communication: auto` (GradientRing). `direct` sends the gradient of each closure to the owners, a
// ring the sum of each replica's closures. So a ring saves bytes if replicas have several closures:
//
//   bytes that a replica sends   direct: closures / replicas * gradient_bytes * (N - 1) / N
//                                ring:   gradient_bytes * (N - 1) / N
//
// A ring also needs a round of messages that `direct` does not need. So it is chosen if each replica
// has at least two closures of a step, and saves at least kSavedBytes.
inline constexpr uint64_t kSavedBytes = uint64_t{16} << 20;
bool RingSavesBytes(uint64_t gradient_bytes, uint64_t closures, uint64_t replicas);

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_CHOOSE_H_
