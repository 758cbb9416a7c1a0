#ifndef COHORT_WORKER_STEP_LOOP_H_
#define COHORT_WORKER_STEP_LOOP_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/data/dataset.h"
#include "common/exchange/variable_access.h"
#include "common/exec/executable.h"
#include "worker/closure_run.h"
#include "worker/resources.h"
#include "worker/worker_core.h"

namespace cohort {

// How the step thread reaches variables, and how it sleeps.
class StepVariables {
 public:
  virtual ~StepVariables() = default;
  // Lives no longer than this object.
  virtual std::unique_ptr<VariableAccess> ForProgram(std::span<const VariableDecl> variables) = 0;
  // Until the owner's WakeStep, or the deadline.
  virtual void Wait(TimePoint deadline) = 0;
};

// What the step thread counts; exported by the owner.
struct StepMetrics {
  explicit StepMetrics(MetricsRegistry* registry);
  Counter* const steps;
  Counter* const closures;
  Counter* const failed;  // closures that ended with an error or were given back
  Counter* const examples;
  Counter* const applied;  // push sections
  Counter* const duplicates;
  Counter* const waits;  // times that the step thread slept for want of work
  Histogram* const exchange_seconds;
  Histogram* const run_seconds;
};

// The step thread. Takes closures from the core and runs their steps:
//
//   NextWork ─► batch ─► Bind, Prepare ─► Exchange(push of the step before, pull of this one) ─►
//   Run
//      ▲                                                                                         │
//      └── Finish, once its last push is acknowledged ◄──────────────── its push is pending ◄────┘
//
// The push of a step travels with the pull of the next one, in one message per server, also from
// one closure to the next; where nothing follows at once (or another program does) it goes alone.
// So at most one push is unacknowledged, and each pull sees the push before it. A closure that
// trains nothing only pulls.
//
// A closure that is cancelled or rolled back, or whose exchange is fenced, is given back; one whose
// data or program fails returns the typed error; the end of an independent dataset is OUT_OF_RANGE.
class StepLoop {
 public:
  struct Options {
    CompileOptions compile;
    DataOptions data;
    Duration idle_wait = std::chrono::seconds(1);
  };

  // All outlive this.
  StepLoop(const Options& options, WorkerCore* core, StepVariables* variables, const Clock* clock,
           StepMetrics* metrics, Logger* log);

  // Until the core is drained. On the step thread.
  void Run();
  // One turn of Run: takes what is next and does it. False where there was nothing to do, or
  // nothing will come any more. For tests and simulators.
  bool RunOnce();
  bool stopped() const { return stopped_; }

 private:
  // A program as this thread runs it.
  struct Compiled {
    absl::Status status;  // why it cannot run
    std::unique_ptr<Executable> executable;
    std::unique_ptr<VariableAccess> access;
    bool uses_variables = false;
    std::vector<Tensor> arguments;  // of a closure that brings its own
  };
  // A push that no server has acknowledged yet. Its buffers are the executable's: valid until the
  // next Prepare but one.
  struct PendingPush {
    Compiled* program = nullptr;
    std::shared_ptr<ClosureRun> run;
    PushBatch batch;
    bool last = false;      // of its closure
    bool prepared = false;  // the program has prepared one step since
  };

  void RunClosure(const Work& work);
  absl::Status RunSteps(const std::shared_ptr<ClosureRun>& run, Compiled* program);
  absl::Status RunStep(const std::shared_ptr<ClosureRun>& run, Compiled* program, uint32_t ordinal);
  absl::Status Bind(ClosureRun* run, Compiled* program, uint32_t ordinal);
  absl::StatusOr<uint64_t> Pull(const std::shared_ptr<ClosureRun>& run, Compiled* program,
                                const PullBatch& pull);
  absl::StatusOr<ExchangeResult> Exchange(Compiled* program, const PullBatch* pull);
  // Sends the pending push alone. The error where it was given up.
  absl::Status PushPending();
  void OnPushed(const PushOutcome& outcome);
  // Gives up the pending push; its closure ends if that was its last.
  void FailPending(const absl::Status& status);
  void MakePending(const std::shared_ptr<ClosureRun>& run, Compiled* program, uint32_t ordinal,
                   uint64_t timeline);
  void Finish(ClosureRun* run, absl::Status status);
  void AnnounceLeases(const Work& work);
  void MakeResource(const Work& work);
  Compiled* Compile(const Work& work);

  const Options options_;
  WorkerCore* const core_;
  StepVariables* const variables_;
  const Clock* const clock_;
  StepMetrics* const metrics_;
  Logger* const log_;

  Resources resources_;
  std::map<std::string, std::unique_ptr<Compiled>> programs_;  // by fingerprint
  std::optional<PendingPush> pending_;
  uint64_t job_ = 0;
  uint64_t announced_ = 0;  // the closure whose leases were announced last
  bool stopped_ = false;
};

}  // namespace cohort

#endif  // COHORT_WORKER_STEP_LOOP_H_
