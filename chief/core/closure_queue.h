#ifndef COHORT_CHIEF_CORE_CLOSURE_QUEUE_H_
#define COHORT_CHIEF_CORE_CLOSURE_QUEUE_H_

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "chief/core/core_types.h"
#include "common/graph/step_membership.h"

namespace cohort {

// One closure, from its Schedule to its end.
//
//   queued ──(1) dispatched──► in flight ──(2) result──► gone
//     ▲ ▲                        │ │                       ▲
//     │ └──────────(3)───────────┘ └──(4)──► heard ──(5)───┘
//     └────────────────(6)────────────────────┘
//
// (3) Its worker is lost, has given it back (also without having begun it), or is set aside. (4)
// Its result has come, and its synchronous step is not closed yet. (5) The step is closed. (6) The
// step was abandoned.
struct Closure {
  enum class State : uint8_t { kQueued, kInFlight, kHeard };

  uint64_t id = 0;
  ClosureSpec spec;
  uint64_t place = 0;  // training closures only
  State state = State::kQueued;
  bool fresh = true;          // no worker has begun it, in this incarnation or an earlier one
  bool was_fresh = true;      // in flight: it was fresh before this dispatch
  bool recalled = false;      // in flight: its worker gives it back if it has not begun it
  bool in_line = false;       // it waits for the first time: its entry in Line::first counts
  int worker = -1;            // in flight: its worker
  uint32_t attempt = 0;       // the last attempt that was dispatched
  uint32_t held_attempt = 0;  // in flight: the attempt that the worker has
  uint32_t min_attempt = 1;   // results of older attempts belong to an older timeline
  StepMembership step;        // its synchronous step, from its first dispatch
  uint32_t ring_places = 0;   // v1.Closure.ring_places
  std::unique_ptr<v1::ClosureResult> heard;  // kHeard: the result
  int copy_worker = -1;                      // a worker that runs it, too; -1: none
  uint32_t give_backs = 0;                   // times that a worker gave it back unfinished
  std::vector<Task> killed;                  // workers that were lost while it ran

  bool by_job() const { return spec.training && spec.place.has_value(); }
};

// Holds the scheduled closures of the job. It finds them by id, keeps waiting closures in a line,
// and lists the closures in flight by worker.
//
// Closures that wait again come first, in the order of their ids, because a closure that stays open
// delays those with much higher ids. The others follow in the order in which they were scheduled.
// Training closures and other closures have separate lines, because a cut stops only training
// closures.
class ClosureQueue {
 public:
  ClosureQueue(size_t capacity, size_t workers)
      : capacity_(capacity), on_worker_(workers), idle_workers_(workers) {}

  // Puts a closure into its line. A fresh closure goes to the end. A closure that an earlier
  // incarnation dispatched, or that was dispatched before an error, joins those that wait again.
  Closure* Add(std::unique_ptr<Closure> closure);
  // Adds a closure that a worker already holds, under this attempt.
  Closure* AddInFlight(std::unique_ptr<Closure> closure, int worker, uint32_t attempt);
  Closure* Find(uint64_t id);
  const Closure* Find(uint64_t id) const;

  // Takes the next closure out of the line and marks it in flight on `worker`. Returns null if no
  // closure may be dispatched: training closures need `training`, the others need `others`, and all
  // need an id below `ids_end`.
  Closure* Dispatch(int worker, bool training, uint64_t ids_end, bool others = true);
  // Takes this closure out of the line: `worker` already holds it.
  void Claim(Closure* closure, int worker, uint32_t attempt);
  // The result of a closure has come, or it gets this one in any state.
  void Hear(Closure* closure, v1::ClosureResult result);
  // Puts a closure that is in flight or heard back into the line, before the fresh closures.
  void Requeue(Closure* closure);
  // As Requeue, for a closure in flight that its worker has not begun.
  void TakeBack(Closure* closure);
  // Removes one closure in any state, and returns it.
  std::unique_ptr<Closure> Remove(uint64_t id);
  // Removes all closures, and returns them by id.
  std::vector<std::unique_ptr<Closure>> Clear();

  size_t size() const { return closures_.size(); }
  size_t queued() const { return closures_.size() - in_flight_ - heard_; }
  size_t in_flight() const { return in_flight_; }
  // Workers that have nothing in flight.
  size_t idle_workers() const { return idle_workers_; }
  size_t heard() const { return heard_; }
  // True if a closure here has more than one step.
  bool has_long_closures() const;
  bool training_waits() const { return Front(training_) != 0; }
  size_t training_in_flight() const { return training_in_flight_; }
  bool full() const { return queued() >= capacity_; }
  // The ids that `worker` has in flight, in the order of dispatch.
  const std::deque<uint64_t>& InFlightOn(int worker) const {
    return on_worker_[static_cast<size_t>(worker)];
  }
  // The next training closure that Dispatch may take; null if none waits.
  const Closure* NextTraining() const;
  // The ids of the closures that wait, ascending.
  std::vector<uint64_t> Waiting() const;
  // The id that Dispatch takes next; 0 if none waits.
  uint64_t Next(bool training = true, bool others = true) const;
  // Returns the training closures of the job runner that a cut must name as pending, by id.
  // Fresh closures after all used places are not among them: their places count as unused, and
  // lower `*first_fresh_place`.
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
  // Drops entries at the front whose closures no longer have in_line set.
  void DropGone(Line* line);
  void TakeOut(Closure* closure);
  void SetInFlight(Closure* closure, int worker, uint32_t attempt);
  void EndFlight(Closure* closure);
  // The closure leaves the state that it is in.
  void Leave(Closure* closure);

  const size_t capacity_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Closure>> closures_;
  Line training_;
  Line others_;
  std::vector<std::deque<uint64_t>> on_worker_;  // ids in flight
  size_t idle_workers_;
  size_t in_flight_ = 0;
  size_t training_in_flight_ = 0;
  size_t heard_ = 0;
  uint64_t used_end_ = 0;  // the end of the places of closures that were removed
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_CLOSURE_QUEUE_H_
