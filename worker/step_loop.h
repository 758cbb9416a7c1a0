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
#include "worker/dense_sums.h"
#include "worker/pull_ahead.h"
#include "worker/resources.h"
#include "worker/step_program.h"
#include "worker/worker_core.h"

namespace cohort {

// Gives the step thread access to variables, and lets it sleep.
class StepVariables {
 public:
  virtual ~StepVariables() = default;
  // The result must not outlive this object.
  virtual std::unique_ptr<VariableAccess> ForProgram(std::span<const VariableDecl> variables) = 0;
  // Sums dense gradients among workers; null: this worker has no part of the variables.
  virtual DenseSums* dense_sums() { return nullptr; }
  // Compiles the program of some work, and gives it access to its variables. Errors: those of
  // Executable::Compile; Aborted: the variables cannot be reached now.
  virtual absl::Status Compile(const Work& work, const CompileOptions& options,
                               StepProgram* program);
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
  Counter* const pulled_ahead;  // steps whose pull began before an earlier step had run
  Counter* const kept_rows;     // rows that steps read from the worker's own copies (`hot_rows`)
  Counter* const kept_bytes;    // what these rows and their keys have
  Counter* const waits;         // sleeps of the step thread because it had no work
  Counter* const not_finite;    // steps with a loss scale whose gradient was not finite
  Counter* const device_bytes;  // copied between the host and devices
  Histogram* const exchange_seconds;
  Histogram* const run_seconds;
};

// The step thread. Takes closures from the core and runs their steps:
//
//   NextWork ─► batch ─► Bind, Prepare ─► exchange(previous push, this pull) ─► Run
//      ▲                                                                         │
//      └─ Finish, when its last push is acknowledged ◄─── its push is pending ◄──┘
//
// The push of a step travels with the pull of the next step, in one message per server, also across
// closures. If no step follows at once, or the next one runs another program, the push travels
// alone. So at most one push is unacknowledged, and each pull sees the push before it. A closure
// that does not train only pulls.
//
// With `pull_ahead: n` (PullAhead), the push of a step travels with the pull of the step n + 1
// after it. The exchange overlaps with the run of the step between them whose turn it is:
//
//   Bind, Prepare step k + n ─► begin exchange(push k - 1, pull k + n) ─► Run step k ─► finish it
//
// Before the step runs, the loop polls the exchange: its requests leave although the streams may
// have been busy when it began.
//
// If the variables lie on the device where the steps run (VariableAccess::on_device), the push
// takes what the step has left there, so it ends before the next step runs.
//
// A step without records (of a stream's file that the user leaves out) pulls, runs and pushes
// nothing. To a synchronous step it is a member that has staged nothing.
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
  // A push that the servers have not acknowledged yet. The executable owns its buffers.
  struct PendingPush {
    StepProgram* program = nullptr;
    std::shared_ptr<ClosureRun> run;
    PushBatch batch;
  };
  // The exchange that has begun.
  struct Exchange {
    StepProgram* program = nullptr;
    bool pushes = false;            // the pending push
    PreparedStep* pulls = nullptr;  // a step of the queue
    absl::Status begun;
    Duration spent{};  // by this thread
  };

  void Open(const Work& work);
  void Advance();
  void DropUnwanted();
  PreparedStep* NextPull();
  absl::Status Prepare(PreparedStep* step);
  // Appends which file of a stream has the records of the step, if they are wrong.
  absl::Status NameFile(absl::Status status, const PreparedStep& step) const;
  bool IsDue(const PreparedStep* pull);
  void RunFront();
  // Runs the step of this lane. If dense gradients are summed among the workers, `sums` is set, and
  // the sums begin meanwhile.
  absl::Status RunStep(const PreparedStep& step, StepProgram* program, DenseSums** sums);
  // Looks for gradients that are not finite, if the program has a loss scale. Returns true if the
  // step is to be pushed: in mode sync always, because the chief decides.
  bool AdmitsPush(const PreparedStep& step, StepProgram* program);

  // One try: if it is interrupted, what should still be pushed or pulled remains for the next one.
  void BeginExchange(PreparedStep* pull);
  void PollExchange();
  void FinishExchange();
  void OnPushed(const PushOutcome& outcome);
  void OnPulled(PreparedStep* step, uint64_t timeline);
  // Gives up the pending push.
  void LosePending(const absl::Status& status);
  static PendingPush MakePush(const PreparedStep& step, StepProgram* program);

  void EndPart(ClosureRun* run);
  void Finish(ClosureRun* run);
  // Ends all steps that have begun, and forgets the compiled programs.
  void DropPrograms();
  void SetPullAhead(uint32_t limit);
  void AnnounceLeases(const Work& work);
  void MakeResource(const Work& work);
  StepProgram* Compile(const Work& work);
  absl::Status CompileFor(const Work& work, bool is_summed, StepProgram* program);

  const Options options_;
  WorkerCore* const core_;
  StepVariables* const variables_;
  const Clock* const clock_;
  StepMetrics* const metrics_;
  Logger* const log_;

  Resources resources_;
  // By fingerprint, and whether servers sum the gradients, as those of a synchronous step.
  std::map<std::pair<std::string, bool>, std::unique_ptr<StepProgram>> programs_;
  PullAhead ahead_;
  std::optional<PendingPush> pending_;
  std::optional<PendingPush> next_push_;  // made while `pending_` is under way
  std::optional<Exchange> exchange_;      // within Advance only
  uint64_t job_ = 0;
  uint64_t announced_ = 0;  // the closure whose leases were announced last
  bool stopped_ = false;
};

}  // namespace cohort

#endif  // COHORT_WORKER_STEP_LOOP_H_
