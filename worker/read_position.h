#ifndef COHORT_WORKER_READ_POSITION_H_
#define COHORT_WORKER_READ_POSITION_H_

#include <cstdint>
#include <string_view>

namespace cohort {

// How far a closure has read a resource that its worker reads independently.
struct ReadPosition {
  std::string_view resource;  // owned by the closure
  uint64_t timeline = 0;      // for which the reader was made; tells it from its predecessor
  uint64_t batches = 0;       // from the start of the stream; 0: the closure has read none
};

}  // namespace cohort

#endif  // COHORT_WORKER_READ_POSITION_H_
