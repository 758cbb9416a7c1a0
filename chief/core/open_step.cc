#include "chief/core/open_step.h"

#include <algorithm>

namespace cohort {

void OpenStep::Begin(const v1::StepPosition& boundary) {
  begin_ = boundary;
  next_place_ = boundary.next_place();
}

void OpenStep::Clear() {
  members_.clear();
  heard_ = 0;
}

double OpenStep::loss_scale() const {
  const LossScaling& scaling = context_->options.loss_scaling;
  if (!mode_->sync() || !scaling.enabled()) return 0;
  return LossScale(scaling, begin_.loss_scale().scale(), begin_.loss_scale().finite_steps())
      .scale();
}

// ------------------------------------------------------------------ admission

bool OpenStep::IsFull() const {
  if (members_.size() >= mode_->settings().places_per_step()) return true;
  return !empty() && places_end_ > 0 && next_place_ >= places_end_;
}

bool OpenStep::Admits(const Closure& closure) const {
  if (closure.step.sync()) return true;
  if (IsFull()) return false;
  if (!empty()) return true;
  const ClosureQueue& queue = closures_->queue();
  const uint64_t other = queue.Next(/*training=*/false);
  return queue.in_flight() == queue.training_in_flight() && (other == 0 || other > closure.id);
}

bool OpenStep::AdmitsOthers() const {
  if (!empty()) return false;
  // The step begins when none of them is in flight. A client that always schedules more would
  // prevent it forever.
  const ClosureQueue& queue = closures_->queue();
  const Closure* const training = queue.NextTraining();
  const bool begins = training != nullptr && !mode_->changing();
  return !begins || queue.Next(/*training=*/false) < training->id;
}

uint32_t OpenStep::RingClosures(const ClosureSpec& first) const {
  const ModeSettings& mode = mode_->settings();
  if (!context_->options.ring || !mode_->sync() || mode.backup_work != BackupWork::kNone) return 0;
  if (!first.place.has_value() || first.place->places_end <= first.place->place) return 0;
  const uint64_t places = first.place->places_end - first.place->place;
  const uint64_t closures = std::min(mode.places_per_step(), places);
  return closures < context_->options.workers.size() ? 0 : static_cast<uint32_t>(closures);
}

int OpenStep::WorkerOf(const Closure& closure) const {
  const uint32_t closures = empty() ? RingClosures(closure.spec) : ring_closures_;
  const uint64_t index = closure.step.sync() ? closure.step.index : members_.size();
  if (index >= closures) return -1;  // no ring, or the open step is full
  return static_cast<int>(index * context_->options.workers.size() / closures);
}

// ------------------------------------------------------------------ members

void OpenStep::Enter(Closure* closure) {
  if (closure->step.sync()) return;
  const ClosureSpec& spec = closure->spec;
  if (step_try_ == 0) step_try_ = outbox_->generation() << 32;
  if (empty()) ring_closures_ = RingClosures(spec);
  closure->ring_places = 0;
  for (uint64_t i = 0; i < ring_closures_; ++i) {
    const uint64_t worker = i * context_->options.workers.size() / ring_closures_;
    closure->ring_places += static_cast<int>(worker) == closure->worker ? 1 : 0;
  }
  closure->step = {.step = begin_.open_step(),
                   .step_try = step_try_,
                   .index = static_cast<uint32_t>(members_.size()),
                   .partial = mode_->settings().backup_work == BackupWork::kDrop};
  members_.push_back({closure->id, closure->step.index});
  next_place_ = closure->place + spec.steps;
  places_end_ = closure->by_job() ? spec.place->places_end : 0;
}

void OpenStep::Hear(Closure* closure, v1::ClosureResult* result) {
  StepMember& member = members_[closure->step.index];
  member.not_finite = result->not_finite_steps() > 0;
  closures_->queue().Hear(closure, std::move(*result));
  member.heard = true;
  const auto& clock_us = context_->options.clock_us;
  member.heard_us = clock_us ? clock_us() : context_->now_us;
  ++heard_;
}

size_t OpenStep::needed() const {
  const ModeSettings& mode = mode_->settings();
  if (mode.backup_work != BackupWork::kDrop) return members_.size();
  return std::min<size_t>(members_.size(), mode.replicas_to_aggregate);
}

bool OpenStep::complete() const {
  if (empty() || heard_ < needed()) return false;
  const bool client_waits = waiting_ > 0 && has_client_step();
  return IsFull() || (ring_closures_ == 0 && (client_waits || mode_->changing()));
}

std::pair<std::vector<StepMember>, std::vector<StepMember>> OpenStep::TakeMembers() {
  const size_t most = needed();
  std::pair<std::vector<StepMember>, std::vector<StepMember>> taken;
  for (const StepMember& member : members_) {
    const bool closes = member.heard && taken.first.size() < most;
    (closes ? taken.first : taken.second).push_back(member);
  }
  Clear();
  return taken;
}

void OpenStep::Abandon() {
  if (empty()) return;
  ++step_try_;
  heard_ = 0;
  for (const StepMember& member : std::exchange(members_, {})) closures_->LeaveStep(member.closure);
  v1::ChiefToPs message;
  message.mutable_abandon_step()->set_step(begin_.open_step());
  message.mutable_abandon_step()->set_step_try(step_try_);
  message.mutable_abandon_step()->set_timeline(context_->timeline);
  for (int ps = 0; ps < static_cast<int>(context_->options.ps.size()); ++ps) {
    outbox_->ToPs(ps, message);
  }
}

}  // namespace cohort
