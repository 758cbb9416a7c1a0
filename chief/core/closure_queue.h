#ifndef COHORT_CHIEF_CORE_CLOSURE_QUEUE_H_
#define COHORT_CHIEF_CORE_CLOSURE_QUEUE_H_

#include <absl/container/flat_hash_map.h>

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
//     └────────────(3)─────────────┘
//
// (3) Its worker is lost, gave it back, or was set aside.
struct Closure {
  enum class State : uint8_t { kQueued, kInFlight };

  uint64_t id = 0;
  ClosureSpec spec;
  State state = State::kQueued;
  bool fresh = true;          // never dispatched, in this life or before it
  bool in_line = false;       // its entry in the queue is the one of its first wait
  int worker = -1;            // in flight: the worker that has it
  uint32_t attempt = 0;       // the last one that was dispatched
  uint32_t held_attempt = 0;  // in flight: the one that the worker has
  uint32_t min_attempt = 1;   // results of older attempts belong to an older timeline
  uint32_t give_backs = 0;    // times that a worker gave it back unfinished
  std::vector<Task> killed;   // workers that were lost while it ran
};

// The scheduled closures of the job: by id, in their line while they wait, and in flight by worker.
//
// Closures that wait again come before those that wait for the first time, in the order of their
// ids, because a closure that stays open holds up those far behind it. Otherwise the order is that
// of Schedule. Training closures and others have lines of their own, because a cut stops only the
// former.
class ClosureQueue {
 public:
  ClosureQueue(size_t capacity, size_t workers) : capacity_(capacity), on_worker_(workers) {}

  // Puts a closure into its line: a fresh one at the end; one that was dispatched in a former life,
  // or before an error, among those that wait again.
  Closure* Add(std::unique_ptr<Closure> closure);
  // Adds a closure that a worker has in hand already, under this attempt.
  Closure* AddInFlight(std::unique_ptr<Closure> closure, int worker, uint32_t attempt);
  Closure* Find(uint64_t id);
  const Closure* Find(uint64_t id) const;

  // Takes the next closure out of the line and marks it in flight on `worker`. Null if none may
  // go: training closures go only if `training`, and only ids below `ids_end` go.
  Closure* Dispatch(int worker, bool training, uint64_t ids_end);
  // Takes this very closure out of the line: `worker` has it in hand.
  void Claim(Closure* closure, int worker, uint32_t attempt);
  // Puts a closure in flight back into the line, before the new ones.
  void Requeue(Closure* closure);
  // Ends one closure, in whatever state.
  std::unique_ptr<Closure> Remove(uint64_t id);
  // Ends everything; returns the closures by id.
  std::vector<std::unique_ptr<Closure>> Clear();

  size_t size() const { return closures_.size(); }
  size_t queued() const { return closures_.size() - in_flight_; }
  size_t in_flight() const { return in_flight_; }
  size_t training_in_flight() const { return training_in_flight_; }
  bool full() const { return queued() >= capacity_; }
  // The ids that `worker` has in flight, in the order of dispatch.
  const std::deque<uint64_t>& InFlightOn(int worker) const {
    return on_worker_[static_cast<size_t>(worker)];
  }
  // The ids of those that wait, ascending.
  std::vector<uint64_t> Waiting() const;
  // The id that Dispatch takes next; 0 if none waits.
  uint64_t Next(bool training = true) const;
  // The training closures of the job runner that a cut must name as pending, by id. Those that were
  // never dispatched are not among them: their places count as not made yet, and lower
  // `*first_fresh_place`.
  std::vector<const Closure*> Pending(uint64_t* first_fresh_place) const;

 private:
  struct Line {
    std::deque<uint64_t> first;  // by id; an entry counts while its closure has in_line set
    std::set<uint64_t> again;
  };
  Line& LineOf(const Closure& closure) { return closure.spec.training ? training_ : others_; }
  // The next id of a line; 0 if it is empty.
  uint64_t Front(const Line& line) const;
  bool InLine(uint64_t id) const;
  // Drops entries at the front that do not count.
  void DropGone(Line* line);
  void TakeOut(Closure* closure);
  void SetInFlight(Closure* closure, int worker, uint32_t attempt);
  void EndFlight(Closure* closure);

  const size_t capacity_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Closure>> closures_;
  Line training_;
  Line others_;
  std::vector<std::deque<uint64_t>> on_worker_;  // ids in flight
  size_t in_flight_ = 0;
  size_t training_in_flight_ = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_CLOSURE_QUEUE_H_
