#ifndef COHORT_CHIEF_JOB_RING_CHOICE_H_
#define COHORT_CHIEF_JOB_RING_CHOICE_H_

#include <cstdint>

namespace cohort {

// How replicas that own the variables exchange the dense gradients of a synchronous step, for
// `communication: auto` (GradientRing). `direct` sends the gradient of each closure to the owners,
// a ring the sum of each replica's closures. So a ring saves bytes if replicas have several
// closures:
//
//   bytes that a replica sends   direct: closures / replicas * gradient_bytes * (N - 1) / N
//                                ring:   gradient_bytes * (N - 1) / N
//
// A ring also needs a round of messages that `direct` does not need. So it is chosen if each
// replica has at least two closures of a step, and saves at least kSavedBytes.
inline constexpr uint64_t kSavedBytes = uint64_t{16} << 20;

constexpr bool RingSavesBytes(uint64_t gradient_bytes, uint64_t closures, uint64_t replicas) {
  if (replicas < 2 || closures < 2 * replicas) return false;
  const double sent = static_cast<double>(gradient_bytes) * static_cast<double>(replicas - 1) /
                      static_cast<double>(replicas);
  const double saved = sent * (static_cast<double>(closures) / static_cast<double>(replicas) - 1);
  return saved >= static_cast<double>(kSavedBytes);
}

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_RING_CHOICE_H_
