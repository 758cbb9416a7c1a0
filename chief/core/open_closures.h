#ifndef COHORT_CHIEF_CORE_OPEN_CLOSURES_H_
#define COHORT_CHIEF_CORE_OPEN_CLOSURES_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
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

// Holds every closure that has an id and is not settled, ends each of them, and keeps the job's
// error.
//
//   scheduled (queue()) ──(1) Finish──────────────────────────► settled, ClosureDone(OK)
//      ▲   │ ▲    └───────(2) Cancel, EndFailed: by the user──► settled, ClosureDone(error)
//      │   │ └─(3) Requeue
//      │   └──────────────(2) by the job runner, ClosureDone(error)──► unfinished (unfinished())
//      └──────────────────(4) TakeUp: its place is scheduled again───────────┘   │
//                         (5) FinishUnfinished: its result comes first───────────┴──► settled
//
// (3) returns an error if the closure has reached a limit; the caller raises it as the job's error.
class OpenClosures {
 public:
  OpenClosures(const CoreContext* context, Outbox* outbox, Settlement* settlement);

  // Takes over the closures that an earlier incarnation of the chief left open. For ids below
  // `rolled_back_end`, results of attempts below `min_attempt` do not count.
  void Restore(const std::vector<UnfinishedClosure>& closures, uint64_t rolled_back_end,
               uint32_t min_attempt);
  // The timeline was raised: ends all closures. Those that the cut names as pending become
  // unfinished.
  void RollBack(const v1::ChiefCut& cut);
  // Ends everything that is scheduled with `why`.
  void EndAll(const absl::Status& why);

  // The counters of the epoch restart.
  void EndEpoch() { counters_.epoch_staleness = {}; }

  // ------------------------------------------------------------- scheduling
  // Returns the result of this place if its unfinished closure ended before it was scheduled again.
  std::optional<v1::ClosureResult> TakeEarly(uint64_t place) {
    return unfinished_.TakeEarly(place);
  }
  // Edge (4), if the place of a closure of the job runner has an unfinished closure. Errors:
  // Internal if its steps differ; Unavailable if it was dispatched too often.
  absl::StatusOr<std::optional<UnfinishedClosures::Entry>> TakeUp(const ClosureSpec& spec);
  // Puts a closure into the queue, or, if a worker holds it already, in flight on that worker.
  void Add(std::unique_ptr<Closure> closure, int holder, uint32_t held_attempt);

  // ------------------------------------------------------------- workers
  // Returns null if the closure is not scheduled.
  Closure* Find(uint64_t id) { return queue_.Find(id); }
  // Takes the next closure that may be dispatched out of the queue, in flight on `worker`; null if
  // there is none. See ClosureQueue::Dispatch.
  Closure* Dispatch(int worker, bool training, uint64_t ids_end, bool others = true) {
    return queue_.Dispatch(worker, training, ids_end, others);
  }
  // A worker that returns has this attempt of a closure, and keeps it if the closure waits or is
  // unfinished. Returns false if it does not: the worker must give it up.
  bool Claim(uint64_t id, int worker, uint32_t attempt);
  // After an error: the error waits until the worker has given up this unfinished closure.
  void Hold(uint64_t id, int worker, uint32_t attempt) { unfinished_.Hold(id, worker, attempt); }
  // The worker holds no unfinished closure.
  void Release(int worker) { unfinished_.Release(worker); }
  // Returns all closures that a worker has: those in flight, and unfinished ones.
  std::vector<uint64_t> ClosuresOn(int worker) const;

  // ------------------------------------------------------------- ends
  // Whether closures are members of synchronous steps from now on.
  void SetSync(bool sync) { sync_ = sync; }
  // Edge (1).
  void Finish(uint64_t id, v1::ClosureResult* result);
  // Journals now what is settled: a record that is appended later is not durable without it.
  void JournalSettled() { settlement_->Tick(context_->now_us, /*force=*/true); }
  // Sync mode: the result has come, and counts when the closure's step is closed: then FinishHeard
  // takes edge (1).
  void Hear(Closure* closure, v1::ClosureResult* result) {
    queue_.Hear(closure, std::move(*result));
  }
  void FinishHeard(uint64_t id);
  // Sync mode: the closure's step is closed without it. FinishHeard ends it: then its data counts
  // as used, its metrics do not.
  void Drop(uint64_t id);
  // Sync mode: the closure's step was abandoned. If it was heard, it waits again, or ends with the
  // job's error. Results of its attempts so far do not count.
  void LeaveStep(uint64_t id);
  // Sync mode, after a restart: the servers have closed the steps of all places before `end`.
  // Results of later places, which an earlier chief dispatched, do not count.
  void RefuseResultsFrom(uint64_t end);
  // Ends the unfinished closures of those places, whose results are lost. Returns their number.
  uint64_t FinishBefore(uint64_t end);
  // Edge (5), or the end of an attempt. Returns false if no unfinished closure needs the result.
  bool FinishUnfinished(v1::ClosureResult* result);
  // Edge (2), with an error of its own.
  void EndFailed(uint64_t id, const absl::Status& status);
  // Edge (2), because of the job's error.
  void Cancel(uint64_t id) { EndFailed(id, error_.ForOthers()); }
  // Edge (3). Returns an error if the closure has reached a limit.
  absl::Status Requeue(Closure* closure);
  // As Requeue, if the worker has not begun it: no limit counts this.
  void TakeBack(Closure* closure) { queue_.TakeBack(closure); }
  // OK if the closure may be dispatched again.
  absl::Status CheckLimits(const Closure& closure) const;

  // ------------------------------------------------------------- the job's error
  // Raises the job's error and cancels what waits. Returns false if there already is an error.
  bool Raise(absl::Status error);
  // Returns true if the workers did not give up their closures by the cancel deadline.
  bool CancelOverdue() {
    return error_pending() &&
           error_.Overdue(context_->now_us, context_->options.cancel_deadline_us);
  }
  // Returns and clears the error if no worker runs a closure anymore; otherwise returns OK.
  absl::Status TakeError() { return error_ready() ? error_.Take() : absl::OkStatus(); }
  bool failed() const { return error_.raised(); }
  bool error_pending() const { return failed() && !error_ready(); }
  const absl::Status& error() const { return error_.status(); }

  // ------------------------------------------------------------- state
  // Adds the pending closures to a cut. Lowers `next_place` to the first place that no worker has
  // seen.
  void FillPending(v1::ChiefCut* cut, uint64_t* next_place) const;
  // "waiting for closure 7 (place 6), which ...", if closure 7 blocks all that wait; otherwise "".
  std::string Waiting() const;
  const ClosureQueue& queue() const { return queue_; }
  const UnfinishedClosures& unfinished() const { return unfinished_; }
  const ClosureCounters& counters() const { return counters_; }

 private:
  bool sync_ = false;
  bool error_ready() const { return failed() && queue_.in_flight() == 0 && !unfinished_.held(); }
  void Count(const v1::ClosureResult& result);
  absl::Status CheckAttempt(uint64_t id, uint64_t place, uint32_t attempt) const;

  const CoreContext* const context_;
  Outbox* const outbox_;
  Settlement* const settlement_;
  ClosureQueue queue_;
  UnfinishedClosures unfinished_;
  JobError error_;
  ClosureCounters counters_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_OPEN_CLOSURES_H_
