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

// One execution of a closure: the results of its steps so far, and how it ends. It consists of
// parts: the closure while it has steps to prepare, each prepared step, and a push that is not
// acknowledged. When the last part has ended, the closure is finished.
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

  void BeginPart() { ++parts_; }
  // Returns true if no part is left.
  bool EndPart() { return --parts_ == 0; }

  // The closure fails, but its steps that are prepared still run. Keeps the first error.
  void Fail(const absl::Status& why);
  // The closure fails, and none of its steps should run. A lost push replaces another error: the
  // steps that were counted do not count.
  void Abandon(const absl::Status& why);
  void AbandonLostPush(const absl::Status& why);
  bool abandoned() const { return abandoned_; }
  const absl::Status& status() const { return status_; }

  // Folds the metrics of a step that has run.
  void AddStep(const Executable& executable, int64_t examples);
  // A step without records counts, and does nothing.
  void AddEmptyStep() { ++steps_; }
  void AddPush(const PushOutcome& outcome);
  // A step has run whose gradient is not finite, because its loss was scaled too much.
  void AddNotFinite() { result_.set_not_finite_steps(result_.not_finite_steps() + 1); }
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
  int parts_ = 0;
  absl::Status status_;
  bool abandoned_ = false;
  uint32_t steps_ = 0;
  int64_t examples_ = 0;
  uint32_t settled_ = 0;  // push sections
  MetricFold metrics_;
  v1::ClosureResult result_;
};

}  // namespace cohort

#endif  // COHORT_WORKER_CLOSURE_RUN_H_
