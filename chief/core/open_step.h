#ifndef COHORT_CHIEF_CORE_OPEN_STEP_H_
#define COHORT_CHIEF_CORE_OPEN_STEP_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "chief/core/core_context.h"
#include "chief/core/mode_switch.h"
#include "chief/core/open_closures.h"
#include "chief/core/outbox.h"

namespace cohort {

// A closure of a synchronous step.
struct StepMember {
  uint64_t closure = 0;
  uint32_t index = 0;
  bool heard = false;       // its worker has pushed it to all tablets
  bool not_finite = false;  // its gradient
  int64_t heard_us = 0;
};

// The synchronous step that takes closures: which closures are its members, under which indices,
// and whether it is complete. The boundary at which it begins has its number, its first place, and
// the iteration and loss scale of the optimizers. A step that is being closed lies before this
// boundary.
//
//   empty ─(1) Enter─► open ─(2) Hear: complete()─► TakeMembers ─► empty, after the next boundary
//                       └────(3) Abandon: an error, or a ring that lacks a member─► empty, next try
class OpenStep {
 public:
  OpenStep(const CoreContext* context, Outbox* outbox, OpenClosures* closures,
           const ModeSwitch* mode)
      : context_(context), outbox_(outbox), closures_(closures), mode_(mode) {}

  // The step begins at this boundary: a step was closed, or the mode or the state has changed.
  void Begin(const v1::StepPosition& boundary);
  // A rollback has ended the members.
  void Clear();
  const v1::StepPosition& begin() const { return begin_; }
  // The end of the places of the members.
  uint64_t next_place() const { return next_place_; }
  uint64_t step_try() const { return step_try_; }
  // The loss scale of the step; 0: the job has none, or each worker has its own.
  double loss_scale() const;

  bool empty() const { return members_.empty(); }
  // True if the workers sum the step's gradients in a ring, and it lacks closures.
  bool lacks_ring_closures() const { return !empty() && ring_closures_ > 0; }
  // True if this is a step of a client's closures (not the job runner's) that gets no more
  // closures.
  bool has_client_step() const {
    return !empty() && places_end_ == 0 && !closures_->queue().training_waits();
  }
  // True if the next training closure may become a member now, and if closures that do not train
  // may be dispatched. All of those see the state between two steps: the ones that were scheduled
  // before the next training closure run first, and the others wait for its step.
  bool Admits(const Closure& closure) const;
  bool AdmitsOthers() const;
  // The workers sum the dense gradients of the step in a ring (JobSettings::ring). Then each worker
  // has the closures of a range of indices, so that it knows when its part is complete. Returns the
  // worker that has to get this closure, which is dispatched next; -1: any worker, or none because
  // the step is full.
  int WorkerOf(const Closure& closure) const;

  // Edge (1): gives the closure, which is in flight, the next index.
  void Enter(Closure* closure);
  // The closure has pushed to all tablets.
  void Hear(Closure* closure, v1::ClosureResult* result);
  // Clients begin or cease to wait for closures of their own.
  void AddWaiting(int clients) { waiting_ += clients; }
  // Edge (2): the step may be closed. The end of an epoch, a client that waits, and a change of the
  // mode make a step short.
  bool complete() const;
  // Returns the members with which the step is closed, and those without which it is (kDrop).
  std::pair<std::vector<StepMember>, std::vector<StepMember>> TakeMembers();
  // Edge (3): what the members have staged is void, because the next try has a higher number.
  void Abandon();

 private:
  bool IsFull() const;
  // How many members close the step.
  size_t needed() const;
  // The number of closures of the step that begins with this one, if the workers sum its dense
  // gradients in a ring; else 0. The end of the step must be known, and each worker must have a
  // closure, because each owns a part of the sum.
  uint32_t RingClosures(const ClosureSpec& first) const;

  const CoreContext* const context_;
  Outbox* const outbox_;
  OpenClosures* const closures_;
  const ModeSwitch* const mode_;
  v1::StepPosition begin_ = FirstBoundary();
  uint64_t step_try_ = 0;
  std::vector<StepMember> members_;  // by index
  size_t heard_ = 0;                 // members
  uint64_t places_end_ = 0;          // the end of the epoch of the job runner's members
  uint64_t next_place_ = 0;          // after the last member
  uint32_t ring_closures_ = 0;       // RingClosures of the first member
  int waiting_ = 0;                  // clients that wait
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_OPEN_STEP_H_
