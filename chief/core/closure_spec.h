#ifndef COHORT_CHIEF_CORE_CLOSURE_SPEC_H_
#define COHORT_CHIEF_CORE_CLOSURE_SPEC_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/tensor/tensor.h"

namespace cohort {

namespace v1 {
class FilePart;
}

// A registered program.
struct StepFunction {
  int program = -1;
};

// A dataset that every worker iterates by itself. As an argument of a step it means the next batch
// of the worker that runs the step.
//
// Checkpoints record how far each worker has read the dataset. After a restart of a worker or in a
// continued run, each worker continues after the batches of the closures whose results the chief
// has. After a restore it continues after those that the chief had at the checkpoint. A worker with
// a new index starts at the beginning. If a closure was given back or cancelled, its batch may be
// skipped. If its worker died, the batch may be read again.
//
// The data that the spec reads, the options, and the number among equal datasets identify a
// dataset. A restarted chief continues the same dataset; a different `name` starts a new one.
struct PerWorkerDataset {
  int resource = -1;
};

// Positions [begin, end) of an epoch's permutation. Visitation stream: of the block `epoch`, which
// is `part` of a file.
struct LeaseRange {
  uint64_t epoch = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  std::shared_ptr<const v1::FilePart> part = nullptr;
};

// The position of a closure of the job runner among the training steps of its job.
struct JobPlace {
  uint64_t place = 0;
  uint64_t places_end = 0;  // end of its epoch
};

// A closure with all its parameters, as the client schedules it.
struct ClosureSpec {
  StepFunction step;
  // The dataset's features feed the program's first arguments. `arguments` feed the others and are
  // the same at every step of the closure. Either may be missing.
  PerWorkerDataset dataset;
  std::vector<Tensor> arguments;
  std::vector<LeaseRange> leases;  // exactly_once: one per step
  bool training = true;            // uses update ids and pushes
  uint32_t steps = 1;
  // Only a closure of the job runner has it: after a restart it recreates the closure. The id of
  // the closure stays in use until it is finished. Other training closures get the next free place.
  std::optional<JobPlace> place;
  uint64_t token = 0;  // identifies it in CoreEffects::ClosureDone; set by the coordinator
};

// A closure of the job runner that has an id and is not finished: its place must be scheduled again
// after a restart, an error or a restore.
struct UnfinishedClosure {
  uint64_t id = 0;
  uint64_t place = 0;
  uint32_t steps = 1;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_CLOSURE_SPEC_H_
