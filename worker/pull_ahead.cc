#include "worker/pull_ahead.h"

#include <utility>

namespace cohort {

void PullAhead::SetLimit(uint32_t limit) {
  limit_ = limit;
  ring_ = std::vector<PreparedStep>(limit + 1);
  first_ = 0;
}

void PullAhead::Open(std::shared_ptr<ClosureRun> run, StepProgram* program) {
  open_ = std::move(run);
  open_program_ = program;
  next_ordinal_ = 0;
}

bool PullAhead::MayAdd() const {
  if (open_ == nullptr || full()) return false;
  const bool sync = open_->closure().step().step() > 0;
  return empty() || (program_ == open_program_ && !sync);
}

PreparedStep* PullAhead::Add() {
  const size_t at = (first_ + size_) % ring_.size();
  ++size_;
  program_ = open_program_;
  PreparedStep& step = ring_[at];
  step.run = open_;
  step.ordinal = next_ordinal_++;
  step.lane = static_cast<int>(at);
  step.last = next_ordinal_ >= open_->closure().steps();
  step.pulled = false;
  step.empty = false;
  step.timeline = 0;
  if (step.last) CloseOpen();
  return &step;
}

PreparedStep* PullAhead::back() {
  return empty() ? nullptr : &ring_[(first_ + size_ - 1) % ring_.size()];
}

PreparedStep PullAhead::PopFront() {
  PreparedStep step = std::move(ring_[first_]);
  first_ = (first_ + 1) % ring_.size();
  --size_;
  return step;
}

PreparedStep PullAhead::PopBack() {
  PreparedStep step = std::move(*back());
  --size_;
  return step;
}

}  // namespace cohort
