#ifndef COHORT_WORKER_PULL_AHEAD_H_
#define COHORT_WORKER_PULL_AHEAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/closure_run.h"
#include "worker/step_program.h"

namespace cohort {

// A step from its Prepare until it runs or is given up.
struct PreparedStep {
  std::shared_ptr<ClosureRun> run;
  uint32_t ordinal = 0;
  int lane = 0;           // in the executable
  bool last = false;      // the last step of its closure
  bool empty = false;     // it has no records, so nothing is pulled, run or pushed
  bool pulled = false;    // its values are in place
  uint64_t timeline = 0;  // at which its values were pulled
  double loss_scale = 0;  // with which it runs, if the program has one
};

// Decides which step is prepared and pulled next, and keeps the steps that wait to run, oldest
// first. A step may be at most `limit` steps ahead of the one that runs next. All steps of the
// queue run one program. A closure whose program is another one, or that is part of a synchronous
// step, waits until the queue is empty.
//
//   Open(closure) ─► Add: its next step, in a free lane ─► pulled ─► front ─► PopFront, and it runs
class PullAhead {
 public:
  PullAhead() { SetLimit(0); }

  // The queue must be empty, and no closure open.
  void SetLimit(uint32_t limit);
  uint32_t limit() const { return limit_; }

  // Takes the closure whose steps are added next. No other may be open.
  void Open(std::shared_ptr<ClosureRun> run, StepProgram* program);
  // Null if no closure is open: the last one has no more steps, or was closed.
  const std::shared_ptr<ClosureRun>& open() const { return open_; }
  // The open closure has no more steps.
  void CloseOpen() { open_ = nullptr; }

  // True if the next step of the open closure may be added now.
  bool MayAdd() const;
  // Adds that step at the back. Closes the closure if it was the last one.
  PreparedStep* Add();

  bool empty() const { return size_ == 0; }
  // True if the oldest step should run before another one is added.
  bool full() const { return size_ > limit_; }
  PreparedStep& front() { return ring_[first_]; }
  // The newest step; null if the queue is empty.
  PreparedStep* back();
  // The program of the steps in the queue.
  StepProgram* program() const { return program_; }
  PreparedStep PopFront();
  PreparedStep PopBack();

 private:
  uint32_t limit_ = 0;
  std::shared_ptr<ClosureRun> open_;
  StepProgram* open_program_ = nullptr;
  uint32_t next_ordinal_ = 0;

  // A position in the ring is also the lane of its step.
  std::vector<PreparedStep> ring_;
  size_t first_ = 0;
  size_t size_ = 0;
  StepProgram* program_ = nullptr;
};

}  // namespace cohort

#endif  // COHORT_WORKER_PULL_AHEAD_H_
