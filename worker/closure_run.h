#ifndef COHORT_WORKER_CLOSURE_RUN_H_
#define COHORT_WORKER_CLOSURE_RUN_H_

#include <absl/status/status.h>

#include <cstdint>

#include "common/exchange/variable_access.h"
#include "common/exec/executable.h"
#include "common/exec/metric_fold.h"
#include "proto/worker.pb.h"
#include "worker/read_position.h"

namespace cohort {

// One execution of a closure: the results of its steps so far.
class ClosureRun {
 public:
  // `closure` must stay valid until the closure is finished.
  ClosureRun(const v1::Closure* closure, uint64_t seed)
      : closure_(closure), seed_(seed), read_position_{.resource = closure->resource()} {}

  const v1::Closure& closure() const { return *closure_; }
  uint64_t seed() const { return seed_; }

  // The end of the last batch that it has read.
  const ReadPosition& read_position() const { return read_position_; }
  ReadPosition* mutable_read_position() { return &read_position_; }

  // Folds the metrics of a step that has run.
  void AddStep(const Executable& executable, int64_t examples);
  void AddPush(const PushOutcome& outcome);
  // Returns Internal if a server refused an update as settled: a closure that the chief waits for
  // is not settled. If another worker has finished the closure meanwhile, the chief ignores this
  // status.
  absl::Status CheckNoneRefused() const;
  bool refused_as_settled() const { return settled_ > 0; }
  // Copies the outputs of the last step.
  void TakeOutputs(const Executable& executable);

  // Returns the result with this status.
  v1::ClosureResult Take(const Program* program, const absl::Status& status);

  uint32_t steps() const { return steps_; }
  int64_t examples() const { return examples_; }

 private:
  const v1::Closure* const closure_;
  const uint64_t seed_;
  ReadPosition read_position_;
  uint32_t steps_ = 0;
  int64_t examples_ = 0;
  uint32_t settled_ = 0;  // push sections
  MetricFold metrics_;
  v1::ClosureResult result_;
};

}  // namespace cohort

#endif  // COHORT_WORKER_CLOSURE_RUN_H_
