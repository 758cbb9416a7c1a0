#ifndef COHORT_CHIEF_CORE_DISPATCHER_H_
#define COHORT_CHIEF_CORE_DISPATCHER_H_

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "chief/core/core_context.h"
#include "chief/core/core_counters.h"
#include "chief/core/membership.h"
#include "chief/core/open_closures.h"
#include "chief/core/outbox.h"
#include "chief/core/settlement.h"
#include "chief/core/steps.h"
#include "chief/core/worker_pace.h"
#include "chief/core/worker_setup.h"

namespace cohort {

// Defines what the chief may dispatch now. CoordinatorCore derives it from the other parts.
struct DispatchGate {
  bool open = false;      // the chief is ready, and all servers serve the variables
  bool training = false;  // no cut holds back training closures
  uint64_t ids_end = 0;   // ids below it are durably reserved and close to the watermark
};

// Gives closures to workers and takes them back. It handles refills, results, give-backs, lost and
// late workers, and the cancellation after an error. It sends only Dispatch and CancelClosures.
class Dispatcher {
 public:
  // The parts that the dispatcher uses.
  struct Parts {
    const CoreContext* context;
    Outbox* outbox;
    const Membership* membership;
    const Settlement* settlement;
    const WorkerSetup* setup;
    OpenClosures* closures;
    JobError* error;
    Steps* steps;
    std::function<DispatchGate()> gate;
  };
  explicit Dispatcher(Parts parts);

  // Enforces two deadlines: workers give up their closures after an error, and report results.
  void Tick();
  // A closure was scheduled. `id` may have ended already.
  void OnScheduled(uint64_t id);
  // Raises the job's error if it is the first one: cancels all closures that wait or are in flight.
  void Fail(absl::Status error);

  // ------------------------------------------------------------- workers
  // A worker returns and is being set up: handles the results and closures of its hello. The worker
  // keeps a closure that it holds, unless another worker already has it.
  void OnReturned(int worker, v1::WorkerHello* hello);
  // A worker that is set up has reported results. Returns true if it gave a closure back: its
  // routes may be stale.
  bool OnResults(int worker, google::protobuf::RepeatedPtrField<v1::ClosureResult>* results);
  // The worker's stream has ended: other workers get its closures.
  void OnLost(int worker);
  // Gives the worker's closures to other workers; the worker gets none for `set_aside_us`.
  void SetAside(int worker, const std::string& why);

  // A user takes the worker's closures from it, and it gets none until `fenced` is false.
  void SetFenced(int worker, bool fenced);

  // A worker may have room now, or all may have.
  void Wake(int worker) { woken_.push_back(worker); }
  void WakeAll() { wake_all_ = true; }
  // Sends closures to the workers that may have room since the last call. Without such a worker it
  // costs nothing. A worker gets closures when it is at half of its limit in flight, because one
  // message then carries several. Near the end of the queue each worker gets only its share.
  void Advance();
  // A cut begins: asks the workers to give back the training closures that they have not begun.
  void Recall();
  // Publishes the durable watermark to the workers that got no Dispatch with it.
  void PublishWatermark();
  // The timeline was raised: cancels all closures of older timelines that workers have.
  void CancelOlderTimelines();

  // ------------------------------------------------------------- state
  const WorkerPace& pace() const { return pace_; }
  std::vector<WorkerFigures> worker_figures() const;  // by index
  const DispatchCounters& counters() const { return counters_; }

 private:
  struct Worker {
    WorkerFigures figures;  // counted from its accepted results, in this incarnation
    bool dropped = false;   // after an error it did not give up its closures in time
    uint64_t copy = 0;      // the closure that it runs beside another worker; 0: none
  };

  bool OnResult(int worker, v1::ClosureResult* result);
  void CheckMetrics(int worker, v1::ClosureResult* result) const;
  static bool IsWanted(const Closure& closure, int worker, const v1::ClosureResult& result,
                       bool ok);
  bool OnStaged(int worker, Closure* closure, v1::ClosureResult* result);
  void Count(int worker, const v1::ClosureResult& result);
  void CancelCopies(const Closure& closure, int except);
  void GiveBack(Closure* closure, const absl::Status& why);
  // The sums of the open step, which the workers sum in a ring, are void: all of its closures run
  // again in a new try.
  void RepeatStep(const std::string& why);
  void ClaimInHand(int worker, const v1::WorkerHello& hello);
  bool MayClaim(int worker, uint64_t id) const;
  bool FailAtLimit(int worker);
  void TakeFrom(int worker, bool lost);
  void AfterSetAside(int worker, const std::string& why);
  void Cancel(int worker, const std::vector<uint64_t>& ids);
  // What the refills of one Advance have in common.
  struct Budget {
    DispatchGate gate;
    size_t available = 1;  // workers
    size_t most = 1;       // closures in flight on one worker
  };
  Budget MakeBudget() const;
  // True if a closure waits that a worker with room may have.
  bool CanDispatch(const DispatchGate& gate) const;
  void Refill(int worker, const Budget& budget);
  void RefillAll(bool idle_only, const Budget& budget);
  Closure* NextFor(int worker, const DispatchGate& gate);
  // Sends the worker at most `most` closures. Returns how many.
  size_t Send(int worker, size_t most, const DispatchGate& gate);
  // Sends each worker its closures of a step whose dense gradients the workers sum in a ring.
  void RefillRing(const DispatchGate& gate);
  // Gives each idle worker a closure of the open step that another worker has.
  void CopyToIdle();
  bool MayCopyTo(int worker);
  void CopyTo(int worker, Closure* closure);
  void FillDispatch(const Closure& closure, v1::Closure* out) const;
  void CheckCancel();
  void CheckLate();
  void EndForLate(int worker);
  int count() const { return static_cast<int>(workers_.size()); }

  const Parts parts_;
  const CoreContext* const context_;
  ClosureQueue* const queue_;  // parts_.closures->queue()
  WorkerPace pace_;
  std::vector<Worker> workers_;
  int next_idle_ = 0;  // idle workers get work in turn
  // The workers that may have room since the last Advance.
  std::vector<int> woken_;
  bool wake_all_ = false;
  bool wake_idle_ = false;
  bool held_ = false;  // closures wait, and none of them could be dispatched in the last Advance
  DispatchCounters counters_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_DISPATCHER_H_
