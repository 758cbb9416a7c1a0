#ifndef COHORT_WORKER_CLOSURES_IN_HAND_H_
#define COHORT_WORKER_CLOSURES_IN_HAND_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "common/graph/step_membership.h"

namespace cohort {

namespace v1 {
class Closure;
class ClosureResult;
class Dispatch;
class Results;
class WorkerHello;
}  // namespace v1

// The closures that a worker has in hand, as a state machine. The caller passes the time.
//
//              (1)            (2)             (3)               (5)
//   unknown ────────► queued ─────► running ───────► finished ──────► unknown
//                       │ ▲                             │ ▲ │
//                       │ └────────────(4)──────────────┘ └─┘ (6)
//                       └───────────────(7)───────────────►
//
// (1) Dispatch. It ignores an id below the settled watermark. (2) Take, in the order of dispatch.
// (3) Finish. The worker reports the result and keeps it until (5) the watermark has passed it, so
// that a restarted chief gets it too. (4) A newer attempt is dispatched, and the result is not a
// success on the timeline and in the try of the step of the closure: the closure runs again. (6)
// The closure is dispatched again otherwise: the worker reports the same result under the attempt
// that the chief named. (7) Cancel or GiveBack of a queued closure: the result has the status
// CANCELLED.
//
// A repeated dispatch, or one with an older attempt than the one in hand, changes nothing. A newer
// attempt replaces a queued one. If a closure is running, the newer attempt takes over its result
// if that is a success, and runs afterwards if it is not.
//
// A rollback (DropOlder) drops the training closures of older timelines: they produce no results,
// and results that they already have are void.
class ClosuresInHand {
 public:
  struct Options {
    // A finished closure is reported after this time at the latest while the worker has others to
    // run. A step of MNIST takes two milliseconds, and each report wakes up two processes.
    int64_t max_result_age_us = 10'000;
    // A planted bug, which proves that the simulator finds it. Only tests set it.
    bool test_keeps_results_over_rollback = false;
    // The same for a result of a synchronous step that was abandoned.
    bool test_keeps_results_over_tries = false;
  };

  explicit ClosuresInHand(const Options& options) : options_(options) {}
  ~ClosuresInHand();

  // Takes the closures out of the message. Returns true if a running one should stop (DropOlder).
  bool Dispatch(v1::Dispatch* dispatch, int64_t now_us);
  // Drops the results below the watermark.
  void Settle(uint64_t watermark);
  // Finishes queued closures as cancelled and marks a running one. Returns true if it marked one.
  bool Cancel(const std::vector<uint64_t>& ids, int64_t now_us);
  // Finishes those that are queued as cancelled. The others stay as they are.
  void GiveBack(const std::vector<uint64_t>& ids, int64_t now_us);
  // See above. The watermark restarts at 0, because it belongs to a timeline. Returns true if the
  // running closure is dropped.
  bool DropOlder(uint64_t timeline);
  // Finishes all queued closures with the status that `make` sets.
  void GiveBackQueued(const std::function<void(v1::ClosureResult*)>& make, int64_t now_us);
  // Marks the running closure: it should stop.
  void StopRunning();
  // Drops everything, for a new job.
  void Clear();

  // Returns the next closure, which counts as running until Finish and stays valid until then;
  // null if none is queued.
  const v1::Closure* Take();
  // Returns the closure that Take would return next; null if none is queued.
  const v1::Closure* Peek() const;
  // Returns true if the running closure is cancelled or belongs to an older timeline.
  bool ShouldStop(uint64_t id) const;
  // Records the end of the running closure.
  void Finish(v1::ClosureResult result, int64_t now_us);

  // Returns true if finished closures should be reported now: half of those in hand are finished,
  // none is left to run, or the first finished one has waited long enough.
  bool ShouldReport(int64_t now_us) const;
  // Copies the results that were not reported yet to `out`. Returns false if there are none.
  bool TakeUnreported(v1::Results* out);
  // Sets in_hand, results and timeline. All results then count as reported.
  void FillHello(v1::WorkerHello* hello);

  size_t queued() const { return queue_.size(); }
  size_t running() const { return running_; }
  size_t kept() const;  // finished
  uint64_t watermark() const { return watermark_; }
  uint64_t timeline() const { return timeline_; }

 private:
  enum class State : uint8_t { kQueued, kRunning, kFinished };
  struct Entry {
    State state = State::kQueued;
    bool stop = false;    // running: it should stop
    bool forget = false;  // running: its result is void
    bool training = false;
    uint64_t timeline = 0;
    StepMembership step;
    std::unique_ptr<v1::Closure> closure;       // queued, running
    std::unique_ptr<v1::Closure> next;          // running: a newer attempt
    std::unique_ptr<v1::ClosureResult> result;  // finished
  };

  void DispatchOne(v1::Closure* closure, int64_t now_us);
  void Redispatch(Entry* entry, v1::Closure* closure, int64_t now_us);
  // True if a success of this entry counts for the dispatch, too.
  bool CountsFor(const Entry& entry, const v1::ClosureResult& result,
                 const v1::Closure& dispatched) const;
  void Enqueue(Entry* entry, std::unique_ptr<v1::Closure> closure);
  void Keep(Entry* entry, v1::ClosureResult result, int64_t now_us);
  void QueueReport(uint64_t id, int64_t now_us);
  void Unqueue(uint64_t id);

  const Options options_;
  uint64_t watermark_ = 0;
  uint64_t timeline_ = 0;
  std::map<uint64_t, Entry> entries_;  // by id
  std::deque<uint64_t> queue_;
  size_t running_ = 0;
  std::vector<uint64_t> unreported_;
  int64_t unreported_since_us_ = 0;
};

}  // namespace cohort

#endif  // COHORT_WORKER_CLOSURES_IN_HAND_H_
