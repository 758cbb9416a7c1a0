#ifndef COHORT_WORKER_READ_TO_H_
#define COHORT_WORKER_READ_TO_H_

#include <cstdint>
#include <string_view>

namespace cohort {

// A place in the stream of a resource that is read independently: how far a closure has read it.
struct ReadTo {
  std::string_view resource;  // the closure's own
  uint64_t timeline = 0;      // that the reader was made for: it tells it from the one before it
  uint64_t batches = 0;       // from the beginning of the stream; 0: it has read none
};

}  // namespace cohort

#endif  // COHORT_WORKER_READ_TO_H_
