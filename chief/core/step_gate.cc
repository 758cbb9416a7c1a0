#include "chief/core/step_gate.h"

#include <algorithm>
#include <utility>

#include "common/base/crash_point.h"

namespace cohort {
namespace {

v1::StepPosition Begin() {
  v1::StepPosition position;
  position.set_open_step(1);
  return position;
}

}  // namespace

StepGate::StepGate(const CoreContext* context, Outbox* outbox, OpenClosures* closures)
    : context_(context),
      outbox_(outbox),
      closures_(closures),
      mode_(context->options.mode),
      closures_per_step_(std::max<uint64_t>(1, context->options.closures_per_step)),
      position_(Begin()) {}

// ------------------------------------------------------------------ dispatch

bool StepGate::IsFull() const {
  if (members_.size() >= closures_per_step_) return true;
  return !members_.empty() && places_end_ > 0 && next_place_ >= places_end_;
}

bool StepGate::Admits(const Closure& closure) const {
  if (mode_ == ConsistencyMode::kBounded) {
    const uint64_t oldest = running_.empty() ? closure.spec.place : *running_.begin();
    return closure.spec.place / closures_per_step_ <=
           oldest / closures_per_step_ + context_->options.staleness +
               (context_->options.test_faults.allows_more_staleness ? 1 : 0);
  }
  if (!sync() || closure.step.sync()) return true;
  if (IsFull()) return false;
  if (!members_.empty()) return true;
  // Closures that do not train see the state between two steps. Those that were scheduled first run
  // first.
  const ClosureQueue& queue = closures_->queue();
  const uint64_t other = queue.Next(/*training=*/false);
  return queue.in_flight() == queue.training_in_flight() && (other == 0 || other > closure.id);
}

void StepGate::Enter(Closure* closure) {
  const ClosureSpec& spec = closure->spec;
  if (!spec.training) return;
  if (mode_ == ConsistencyMode::kBounded) running_.insert(spec.place);
  if (!sync() || closure->step.sync()) return;
  if (step_try_ == 0) step_try_ = outbox_->generation() << 32;
  closure->step = {.step = position_.open_step(),
                   .step_try = step_try_,
                   .index = static_cast<uint32_t>(members_.size()),
                   .partial = context_->options.backup_work == BackupWork::kDrop};
  members_.push_back({closure->id, closure->step.index});
  next_place_ = spec.place + spec.steps;
  places_end_ = spec.by_job ? spec.places_end : 0;
}

size_t StepGate::ShareOf(size_t workers) const {
  return sync() ? (closures_per_step_ + workers - 1) / workers : SIZE_MAX;
}

// ------------------------------------------------------------------ results

void StepGate::OnHeard(Closure* closure, v1::ClosureResult* result) {
  const uint32_t index = closure->step.index;
  closures_->Hear(closure, result);
  members_[index].heard = true;
  CloseIfComplete();
}

void StepGate::OnEnded(const Closure& closure) { running_.erase(closure.spec.place); }

void StepGate::AddWaiting(int clients) {
  waiting_ += clients;
  CloseIfComplete();
}

void StepGate::CloseIfComplete() {
  const CoreTestFaults& faults = context_->options.test_faults;
  if (members_.empty() || (!closing_.empty() && !faults.closes_before_closed)) return;
  const auto heard = static_cast<size_t>(
      std::count_if(members_.begin(), members_.end(), [](const Member& m) { return m.heard; }));
  const bool drop = context_->options.backup_work == BackupWork::kDrop;
  const size_t needed =
      drop ? std::min<size_t>(members_.size(), context_->options.replicas_to_aggregate)
           : members_.size();
  if (heard < needed) return;
  const bool may_be_short =
      waiting_ > 0 && places_end_ == 0 && !closures_->queue().training_waits();
  if (!IsFull() && !may_be_short) return;
  for (const Member& member : std::exchange(closing_members_, {})) {
    closures_->FinishHeard(member.closure);  // with `closes_before_closed` only
  }
  close_.Clear();
  close_.set_step(position_.open_step());
  close_.set_step_try(step_try_);
  close_.set_iteration(position_.iteration());
  close_.set_timeline(context_->timeline);
  close_.set_next_place(next_place_);
  for (const Member& member : members_) {
    if (!member.heard || closing_members_.size() == needed) continue;
    v1::StepMember* const out = close_.add_members();
    out->set_closure(member.closure);
    out->set_index(member.index);
    closing_members_.push_back(member);
  }
  std::vector<uint64_t> dropped;
  for (const Member& member : members_) {
    const bool in = std::any_of(closing_members_.begin(), closing_members_.end(),
                                [&](const Member& m) { return m.closure == member.closure; });
    if (!in) dropped.push_back(member.closure);
  }
  position_.set_open_step(close_.step() + 1);
  position_.set_iteration(close_.iteration() + 1);
  position_.set_next_place(close_.next_place());
  members_.clear();
  for (int ps = 0; ps < static_cast<int>(context_->options.ps.size()); ++ps) {
    closing_.insert(ps);
    SendClose(ps);
  }
  COHORT_CRASH_POINT("chief.step.closing");
  for (const uint64_t id : dropped) Drop(id);
  if (!faults.settles_before_closed) return;
  for (const Member& member : std::exchange(closing_members_, {})) {
    closures_->FinishHeard(member.closure);
  }
}

void StepGate::Drop(uint64_t closure) {
  ++counters_.dropped;
  const Closure* const c = closures_->Find(closure);
  if (c->state == Closure::State::kInFlight) {
    v1::ChiefToWorker message;
    message.mutable_cancel()->add_ids(closure);
    message.mutable_cancel()->set_timeline(context_->timeline);
    outbox_->ToWorker(c->worker, std::move(message));
  }
  closures_->Drop(closure);
}

void StepGate::SendClose(int ps) const {
  v1::ChiefToPs message;
  *message.mutable_close_step() = close_;
  outbox_->ToPs(ps, std::move(message));
}

// ------------------------------------------------------------------ servers

void StepGate::OnStepClosed(int ps, uint64_t step) {
  if (closing_.empty() || step != close_.step() || closing_.erase(ps) == 0) return;
  if (closing_.empty()) FinishClosing();
}

void StepGate::FinishClosing() {
  COHORT_CRASH_POINT("chief.step.closed");
  ++counters_.steps_closed;
  for (const Member& member : std::exchange(closing_members_, {})) {
    closures_->FinishHeard(member.closure);
  }
  CloseIfComplete();
}

void StepGate::OnPsReturned(int ps, const v1::PsHello& hello) {
  if (!closing_.contains(ps)) return;
  if (hello.position().open_step() > close_.step()) {
    OnStepClosed(ps, close_.step());
  } else {
    SendClose(ps);
  }
}

// ------------------------------------------------------------------ errors, restarts and rollbacks

void StepGate::Abandon() {
  running_.clear();
  if (members_.empty()) return;
  ++step_try_;
  for (const Member& member : std::exchange(members_, {})) closures_->LeaveStep(member.closure);
  v1::ChiefToPs message;
  message.mutable_abandon_step()->set_step(position_.open_step());
  message.mutable_abandon_step()->set_step_try(step_try_);
  message.mutable_abandon_step()->set_timeline(context_->timeline);
  for (int ps = 0; ps < static_cast<int>(context_->options.ps.size()); ++ps) {
    outbox_->ToPs(ps, message);
  }
}

void StepGate::GiveUpClosing() {
  for (const Member& member : std::exchange(closing_members_, {})) {
    closures_->LeaveStep(member.closure);
  }
}

const v1::StepPosition& StepGate::TakeOver(const std::vector<const v1::PsHello*>& hellos) {
  position_ = Begin();
  close_.Clear();
  for (const v1::PsHello* const hello : hellos) {
    if (hello->timeline() != context_->timeline) continue;
    if (hello->position().open_step() >= position_.open_step()) position_ = hello->position();
    if (hello->has_last_close() && hello->last_close().step() >= close_.step()) {
      close_ = hello->last_close();
    }
  }
  closing_.clear();
  for (size_t ps = 0; ps < hellos.size(); ++ps) {
    if (hellos[ps]->position().open_step() < position_.open_step()) {
      closing_.insert(static_cast<int>(ps));
    }
  }
  const CoreTestFaults& faults = context_->options.test_faults;
  if (faults.repeats_other_members && close_.members_size() > 1) {
    close_.mutable_members()->RemoveLast();
  }
  if (faults.forgets_half_close) closing_.clear();
  next_place_ = position_.next_place();
  return position_;
}

void StepGate::Resume() {
  if (!sync()) return;
  counters_.lost_results += closures_->FinishBefore(position_.next_place());
  for (const int ps : closing_) SendClose(ps);
}

void StepGate::RollBack(const v1::StepPosition& position) {
  position_ = position;
  position_.set_open_step(std::max<uint64_t>(position.open_step(), 1));
  members_.clear();
  closing_members_.clear();
  closing_.clear();
  running_.clear();
  places_end_ = 0;
  next_place_ = position.next_place();
}

std::string StepGate::Waiting() const {
  if (closing_.empty()) return "";
  return fmt::format("waiting for {} to close step {}",
                     TaskName(context_->options, PsTask(*closing_.begin())), close_.step());
}

}  // namespace cohort
