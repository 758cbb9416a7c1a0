#ifndef COHORT_CHIEF_CORE_CLOSURE_QUEUE_H_
#define COHORT_CHIEF_CORE_CLOSURE_QUEUE_H_

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "chief/core/core_types.h"

namespace cohort {

// One closure between Schedule and its end.
//
//   queued ──(1) dispatched──► in flight ──(2) result──► gone
//     ▲                            │
//     └─(3) its worker is lost, gave it back, or rests─┘
struct Closure {
  enum class State : uint8_t { kQueued, kInFlight };

  uint64_t id = 0;
  ClosureSpec spec;
  uint64_t place = 0;
  State state = State::kQueued;
  bool fresh = true;          // never dispatched, in this life or before it
  bool in_line = false;       // its entry in the queue is the one of its first wait
  int worker = -1;            // in flight: where
  uint32_t attempt = 0;       // the last one that was given out
  uint32_t held_attempt = 0;  // in flight: the one that its worker has
  uint32_t min_attempt = 1;   // results of older ones belong to an older timeline
  uint32_t give_backs = 0;
  std::vector<Task> killed;  // workers that were lost while it ran
};

// The closures of the job, by id, and the line in which they wait. Closures that wait again come
// before those that wait for the first time, in the order of their ids, for what stays open holds
// up those far behind it; otherwise the order is that of Schedule. Training closures and others
// stand in lines of their own, for a cut stops only the former.
//
// Its error follows ClusterCoordinator:
//
//              (1) Fail, the first            (2) nothing is in flight         (3) TakeError
//   running ───────────────────► cancelling ────────────────────► ready to raise ─────────► running
//
// (1) drains the line; whoever owns this cancels what is in flight. While an error is there nothing
// is dispatched, and later errors are dropped.
class ClosureQueue {
 public:
  explicit ClosureQueue(size_t capacity) : capacity_(capacity) {}

  // Puts a closure into its line: a fresh one at the end; one that was given out in a former life,
  // or before an error, among those that wait again.
  Closure* Add(std::unique_ptr<Closure> closure);
  // One that a worker has in hand already, under this attempt.
  Closure* AddInFlight(std::unique_ptr<Closure> closure, int worker, uint32_t attempt);
  Closure* Find(uint64_t id);
  const Closure* Find(uint64_t id) const;

  // Takes the next one out of the line and marks it in flight on `worker`; null where there is none
  // that may go: of training closures only where `training`, and only ids below `ids_end`.
  Closure* Dispatch(int worker, bool training, uint64_t ids_end);
  // Takes this very one out of the line.
  void Claim(Closure* closure, int worker, uint32_t attempt);
  // Back into the line, before the new ones.
  void Requeue(Closure* closure);
  // Ends one, in whatever state.
  std::unique_ptr<Closure> Remove(uint64_t id);
  // Ends all that wait.
  std::vector<std::unique_ptr<Closure>> Drain();
  // Ends everything.
  std::vector<std::unique_ptr<Closure>> Clear();

  size_t size() const { return closures_.size(); }
  size_t queued() const { return closures_.size() - in_flight_; }
  size_t in_flight() const { return in_flight_; }
  size_t training_in_flight() const { return training_in_flight_; }
  bool full() const { return queued() >= capacity_; }
  // The one that Dispatch takes next; 0 where none waits.
  uint64_t Next(bool training = true) const;
  // Training closures of the job runner that a cut must name as pending: all but those that were
  // never dispatched, whose places (from `*first_fresh_place` on; unchanged where there is none)
  // count as not made yet.
  std::vector<const Closure*> Pending(uint64_t* first_fresh_place) const;

  // The error. Fail returns false where there is one already.
  bool Fail(absl::Status error);
  bool failed() const { return !error_.ok(); }
  bool error_ready() const { return failed() && in_flight_ == 0; }
  const absl::Status& error() const { return error_; }
  absl::Status TakeError();

 private:
  struct Line {
    std::deque<uint64_t> first;  // by id; an entry counts while its closure says in_line
    std::set<uint64_t> again;
  };
  Line& LineOf(const Closure& closure) { return closure.spec.training ? training_ : others_; }
  // The next id of a line, 0 where it is empty.
  uint64_t Front(const Line& line) const;
  bool InLine(uint64_t id) const;
  // Drops entries at the front that do not count.
  void DropGone(Line* line);
  void TakeOut(Closure* closure);
  void SetInFlight(Closure* closure, int worker, uint32_t attempt);

  const size_t capacity_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Closure>> closures_;
  Line training_;
  Line others_;
  size_t in_flight_ = 0;
  size_t training_in_flight_ = 0;
  absl::Status error_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_CLOSURE_QUEUE_H_
