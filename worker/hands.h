#ifndef COHORT_WORKER_HANDS_H_
#define COHORT_WORKER_HANDS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace cohort {

namespace v1 {
class Closure;
class ClosureResult;
class Dispatch;
class Results;
class WorkerHello;
}  // namespace v1

// The closures that a worker has in hand. A state machine; time is given.
//
//              (1)            (2)             (3)               (5)
//   unknown ────────► queued ─────► running ───────► finished ──────► unknown
//                       │ ▲                             │ ▲ │
//                       │ └────────────(4)──────────────┘ └─┘ (6)
//                       └───────────────(7)───────────────►
//
// (1) Dispatch; an id below the settled watermark is ignored. (2) Take, in the order of dispatch.
// (3) Finish: the result is sent, and kept until (5) the watermark has passed it, so that a chief
// that was restarted gets it too. (4) Dispatched again under a newer attempt: runs again where the
// result is no success on the closure's timeline. (6) Dispatched again otherwise: the same result
// is sent again, under the attempt that was asked for. (7) cancelled while queued: the result says
// so.
//
// The same closure dispatched twice, or under an older attempt than the one in hand, changes
// nothing. A newer attempt replaces the one that waits; while one runs, the newer one takes its
// result where that is a success, and runs afterwards where it is not.
//
// A rollback (DropOlder) forgets the training closures of older timelines: no results are made of
// them, and those they had are void.
class Hands {
 public:
  struct Options {
    // A finished closure is told after so long at the latest, while the worker has others to run: a
    // step of MNIST takes two milliseconds, and each telling costs two processes a wake-up.
    int64_t max_result_age_us = 10'000;
    // A planted bug, with which the simulator proves that it would find it. Set by tests alone.
    bool test_keeps_results_over_rollback = false;
  };

  explicit Hands(const Options& options) : options_(options) {}
  ~Hands();

  // Takes the closures out of the message. True where a running one should stop (see DropOlder).
  bool Dispatch(v1::Dispatch* dispatch, int64_t now_us);
  // Forgets results below it.
  void Settle(uint64_t watermark);
  // Those that are queued finish as cancelled now; one that runs is marked. True: mark was set.
  bool Cancel(const std::vector<uint64_t>& ids, int64_t now_us);
  // See above. A watermark is of a timeline, so it starts anew. True where the running one is among
  // them.
  bool DropOlder(uint64_t timeline);
  // Gives back what is queued: finishes it as `make` says.
  void GiveBackQueued(const std::function<void(v1::ClosureResult*)>& make, int64_t now_us);
  // Marks what runs: it should stop.
  void StopRunning();
  // A new job.
  void Clear();

  // The next closure, which runs from now on; null where none is queued. It stays valid until
  // Finish.
  const v1::Closure* Take();
  // The one after it, while the first runs; null where none waits.
  const v1::Closure* Peek() const;
  // Whether the running closure should stop: cancelled or of an older timeline.
  bool ShouldStop(uint64_t id) const;
  // The running closure has ended.
  void Finish(v1::ClosureResult result, int64_t now_us);

  // Whether finished closures should be told now: half of what was in hand is finished, nothing is
  // left to run, or the first of them has waited long enough.
  bool ShouldTell(int64_t now_us) const;
  // Copies the results that were not told yet into `out`; false where there are none.
  bool TakeUntold(v1::Results* out);
  // in_hand, results and timeline; every result counts as told.
  void FillHello(v1::WorkerHello* hello);

  size_t queued() const { return queue_.size(); }
  size_t running() const { return running_; }
  size_t kept() const;  // results
  uint64_t watermark() const { return watermark_; }
  uint64_t timeline() const { return timeline_; }

 private:
  enum class State : uint8_t { kQueued, kRunning, kFinished };
  struct Entry {
    State state = State::kQueued;
    bool stop = false;    // running: it should
    bool forget = false;  // running: its result is void
    bool training = false;
    uint64_t timeline = 0;
    std::unique_ptr<v1::Closure> closure;       // queued, running
    std::unique_ptr<v1::Closure> next;          // running: a newer attempt
    std::unique_ptr<v1::ClosureResult> result;  // finished
  };

  void DispatchOne(v1::Closure* closure, int64_t now_us);
  void Redispatch(Entry* entry, v1::Closure* closure, int64_t now_us);
  void Enqueue(Entry* entry, std::unique_ptr<v1::Closure> closure);
  void Keep(Entry* entry, v1::ClosureResult result, int64_t now_us);
  void Tell(uint64_t id, int64_t now_us);
  void Unqueue(uint64_t id);

  const Options options_;
  uint64_t watermark_ = 0;
  uint64_t timeline_ = 0;
  std::map<uint64_t, Entry> entries_;  // by id
  std::deque<uint64_t> queue_;
  size_t running_ = 0;
  std::vector<uint64_t> untold_;
  int64_t untold_since_us_ = 0;
};

}  // namespace cohort

#endif  // COHORT_WORKER_HANDS_H_
