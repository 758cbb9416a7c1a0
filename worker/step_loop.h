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

// Gives the step thread access to variables, and lets it sleep.
class StepVariables {
 public:
  virtual ~StepVariables() = default;
  // The result must not outlive this object.
  virtual std::unique_ptr<VariableAccess> ForProgram(std::span<const VariableDecl> variables) = 0;
  // Sleeps until the WakeStep of the owner, or the deadline.
  virtual void Wait(TimePoint deadline) = 0;
};

// The metrics of the step thread; the owner exports them.
struct StepMetrics {
  explicit StepMetrics(MetricsRegistry* registry);
  Counter* const steps;
  Counter* const closures;
  Counter* const failed;  // closures that failed or were given back
  Counter* const examples;
  Counter* const applied;  // push sections
  Counter* const duplicates;
  Counter* const waits;  // sleeps of the step thread because it had no work
  Histogram* const exchange_seconds;
  Histogram* const run_seconds;
};

// The step thread. Takes closures from the core and runs their steps:
//
//   NextWork ─► batch ─► Bind, Prepare ─► Exchange(previous push, this pull) ─► Run
//      ▲                                                                         │
//      └─ Finish, when its last push is acknowledged ◄─── its push is pending ◄──┘
//
// The push of a step travels with the pull of the next step, in one message per server, also across
// closures. If no step follows at once, or the next one runs another program, the push travels
// alone. So at most one push is unacknowledged, and each pull sees the push before it. A closure
// that does not train only pulls.
//
// The loop gives a closure back if it is cancelled or rolled back, or if its exchange is fenced. It
// returns a typed error if the data or the program fail. The end of an independent dataset is
// OUT_OF_RANGE.
class StepLoop {
 public:
  struct Options {
    CompileOptions compile;
    DataOptions data;
    Duration idle_wait = std::chrono::seconds(1);
  };

  // All pointers outlive this object.
  StepLoop(const Options& options, WorkerCore* core, StepVariables* variables, const Clock* clock,
           StepMetrics* metrics, Logger* log);

  // Runs until the core is drained. Called on the step thread.
  void Run();
  // Runs the next piece of work. Returns false if there was no work, or if there will be no more.
  // For tests and simulators.
  bool RunOnce();
  bool stopped() const { return stopped_; }

 private:
  // A program in the form in which this thread runs it.
  struct Compiled {
    absl::Status status;  // why it cannot run
    std::unique_ptr<Executable> executable;
    std::unique_ptr<VariableAccess> access;
    bool uses_variables = false;
    std::vector<Tensor> arguments;  // that the running closure brings
  };
  // A push that the servers have not acknowledged yet. The executable owns its buffers, which stay
  // valid until the second Prepare after this one.
  struct PendingPush {
    Compiled* program = nullptr;
    std::shared_ptr<ClosureRun> run;
    PushBatch batch;
    bool last = false;      // it is the last push of its closure
    bool prepared = false;  // the program has prepared one step since then
  };

  void RunClosure(const Work& work);
  absl::Status RunSteps(const std::shared_ptr<ClosureRun>& run, Compiled* program);
  absl::Status RunStep(const std::shared_ptr<ClosureRun>& run, Compiled* program, uint32_t ordinal);
  absl::Status Bind(ClosureRun* run, Compiled* program, uint32_t ordinal);
  absl::StatusOr<uint64_t> Pull(const std::shared_ptr<ClosureRun>& run, Compiled* program,
                                const PullBatch& pull);
  absl::StatusOr<ExchangeResult> Exchange(Compiled* program, const PullBatch* pull);
  // Sends the pending push alone. Returns an error if the push was given up.
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
