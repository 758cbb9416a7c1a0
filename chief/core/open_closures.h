#ifndef COHORT_CHIEF_CORE_OPEN_CLOSURES_H_
#define COHORT_CHIEF_CORE_OPEN_CLOSURES_H_

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <vector>

#include "chief/core/closure_queue.h"
#include "chief/core/core_context.h"
#include "chief/core/core_counters.h"
#include "chief/core/job_error.h"
#include "chief/core/outbox.h"
#include "chief/core/settlement.h"
#include "chief/core/unfinished_closures.h"

namespace cohort {

// Ends every closure that has an id and is not settled.
//
//   scheduled (queue()) ──(1) Finish──────────────────────────► settled, ClosureDone(OK)
//      ▲   │ ▲    └───────(2) Cancel, EndFailed: by the user──► settled, ClosureDone(error)
//      │   │ └─(3) Requeue
//      │   └──────────────(2) by the job runner, ClosureDone(error)──► unfinished (unfinished())
//      └──────────────────(4) its place is scheduled again: ClosureScheduler─┘   │
//                         (5) FinishUnfinished: its result comes first───────────┴──► settled
//
// (3) returns an error if the closure has reached a limit; the caller raises it as the job's error.
class OpenClosures {
 public:
  OpenClosures(const CoreContext* context, Outbox* outbox, Settlement* settlement,
               ClosureQueue* queue, UnfinishedClosures* unfinished, JobError* error);

  // The closures that are scheduled; those that have to be scheduled again.
  ClosureQueue& queue() const { return *queue_; }
  UnfinishedClosures& unfinished() const { return *unfinished_; }

  // Takes over the closures that an earlier incarnation of the chief left open. Results of attempts
  // below `min_attempt` do not count: they are of an older timeline. It may have had other closures
  // with these ids, if its journal is gone.
  void Restore(const std::vector<UnfinishedClosure>& closures, uint32_t min_attempt);
  // The timeline was raised: ends all closures. Those that the cut names as pending become
  // unfinished.
  void RollBack(const v1::ChiefCut& cut);
  // Ends everything that is scheduled with `why`.
  void EndAll(const absl::Status& why);

  // The counters of the epoch restart.
  void EndEpoch() { counters_.epoch_staleness = {}; }

  // ------------------------------------------------------------- workers
  // A worker that returns has this attempt of a closure, and keeps it if the closure waits or is
  // unfinished. Returns false if it does not: the worker must give it up.
  bool Claim(uint64_t id, int worker, uint32_t attempt);
  // Returns all closures that a worker has: those in flight, and unfinished ones.
  std::vector<uint64_t> ClosuresOn(int worker) const;

  // ------------------------------------------------------------- ends
  // Whether closures are members of synchronous steps from now on.
  void SetSync(bool sync) { sync_ = sync; }
  // Edge (1).
  void Finish(uint64_t id, v1::ClosureResult* result);
  // Sync mode: edge (1), with the result that ClosureQueue::Hear has kept.
  void FinishHeard(uint64_t id);
  // Journals now what is settled: a record that is appended later is not durable without it.
  void JournalSettled() { settlement_->Tick(context_->now_us, /*force=*/true); }
  // Sync mode: the closure's step was abandoned. If it was heard, it waits again, or ends with the
  // job's error. Results of its attempts so far do not count.
  void LeaveStep(uint64_t id);
  // Sync mode, after a restart: ends the unfinished closures of places before `end`, whose results
  // are lost. Returns their number.
  uint64_t FinishBefore(uint64_t end);
  // Edge (5), or the end of an attempt. Returns false if no unfinished closure needs the result.
  bool FinishUnfinished(v1::ClosureResult* result);
  // Edge (2), with an error of its own.
  void EndFailed(uint64_t id, const absl::Status& status);
  // Edge (2), because of the job's error.
  void Cancel(uint64_t id) { EndFailed(id, error_->ForOthers()); }
  // Edge (3). Returns an error if the closure has reached a limit.
  absl::Status Requeue(Closure* closure);
  // OK if the closure may be dispatched again.
  absl::Status CheckLimits(const Closure& closure) const;
  // Raises the job's error and cancels what waits. Returns false if there already is an error.
  bool Raise(absl::Status error);
  bool failed() const { return error_->raised(); }

  // ------------------------------------------------------------- state
  // Adds the pending closures to a cut. Lowers `next_place` to the first place that no worker has
  // seen.
  void FillPending(v1::ChiefCut* cut, uint64_t* next_place) const;
  // "waiting for closure 7 (place 6), which ...", if closure 7 blocks all that wait; otherwise "".
  std::string Waiting() const;
  const ClosureCounters& counters() const { return counters_; }

 private:
  void Count(const v1::ClosureResult& result);

  const CoreContext* const context_;
  Outbox* const outbox_;
  Settlement* const settlement_;
  ClosureQueue* const queue_;
  UnfinishedClosures* const unfinished_;
  JobError* const error_;
  bool sync_ = false;
  ClosureCounters counters_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_OPEN_CLOSURES_H_
