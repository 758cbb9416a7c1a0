#ifndef COHORT_WORKER_CLOSURE_RUN_H_
#define COHORT_WORKER_CLOSURE_RUN_H_

#include <absl/status/status.h>

#include <cstdint>
#include <vector>

#include "common/exchange/variable_access.h"
#include "common/exec/executable.h"
#include "proto/worker.pb.h"
#include "worker/read_to.h"

namespace cohort {

// One execution of a closure: what its steps have come to so far.
class ClosureRun {
 public:
  // `closure` must stay valid until the closure is finished.
  ClosureRun(const v1::Closure* closure, uint64_t seed)
      : closure_(closure), seed_(seed), read_to_{.resource = closure->resource()} {}

  const v1::Closure& closure() const { return *closure_; }
  uint64_t seed() const { return seed_; }

  // Where its last batch ends.
  const ReadTo& read_to() const { return read_to_; }
  ReadTo* mutable_read_to() { return &read_to_; }

  // Folds the metric partials of a step that has run.
  void AddStep(const Executable& executable, int64_t examples);
  void AddPush(const PushOutcome& outcome);
  // Internal where an update was refused as settled: a closure that is still waited for is not.
  // Of one that somebody else has finished meanwhile, nobody looks at it.
  absl::Status CheckTaken() const;
  bool refused_as_settled() const { return settled_ > 0; }
  // Copies the outputs of the last step.
  void TakeOutputs(const Executable& executable);

  // The result, with this status.
  v1::ClosureResult Take(const Program* program, const absl::Status& status);

  uint32_t steps() const { return steps_; }
  int64_t examples() const { return examples_; }

 private:
  const v1::Closure* const closure_;
  const uint64_t seed_;
  ReadTo read_to_;
  uint32_t steps_ = 0;
  int64_t examples_ = 0;
  uint32_t settled_ = 0;  // push sections
  std::vector<double> totals_;
  std::vector<double> counts_;
  v1::ClosureResult result_;
};

}  // namespace cohort

#endif  // COHORT_WORKER_CLOSURE_RUN_H_
