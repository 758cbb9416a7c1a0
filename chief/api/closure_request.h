#ifndef COHORT_CHIEF_API_CLOSURE_REQUEST_H_
#define COHORT_CHIEF_API_CLOSURE_REQUEST_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/tensor/tensor.h"

namespace cohort {

// A registered program.
struct StepFunction {
  int program = -1;
};

// A dataset of which every worker has its own copy and iterator. As an argument of a step it stands
// for the next batch of the worker that runs the step.
//
// Checkpoints record how far each worker has read it. After a restart of a worker, a continued run
// or a restore, each worker continues behind the batches of the closures whose results the chief
// has (after a restore: had at the checkpoint). A worker with a new index starts at the beginning.
// A batch of a closure that was given back or cancelled may be skipped; it may come again if its
// worker died.
//
// A dataset is identified by what its spec reads, by its options and by its number among equal
// datasets. A restarted chief continues the same one; another `name` starts a new one.
struct PerWorkerDataset {
  int resource = -1;
};

// Positions [begin, end) of an epoch's permutation.
struct LeaseRange {
  uint64_t epoch = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// The position of a closure of the job runner among the training steps of its job.
struct JobPlace {
  uint64_t place = 0;
  uint64_t places_end = 0;  // of its epoch
};

// A closure with everything that can be said about it.
struct ClosureRequest {
  StepFunction step;
  // The dataset's features feed the program's first arguments. `arguments` feed those after them
  // and are the same at every step of the closure. Either may be missing.
  PerWorkerDataset dataset;
  std::vector<Tensor> arguments;
  std::vector<LeaseRange> leases;  // exactly_once: one per step
  bool training = true;            // has pushes
  uint32_t steps = 1;
  std::optional<JobPlace> place;  // from it a restarted job runner recreates the closure
};

// A closure of the job runner that must be scheduled again after a restart, an error or a restore.
struct UnfinishedPlace {
  uint64_t place = 0;
  uint32_t steps = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_CLOSURE_REQUEST_H_
