#include "chief/core/steps.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/optimizers/gradient_clipping.h"

namespace cohort {

Steps::Steps(const CoreContext* context, Outbox* outbox, OpenClosures* closures, const Homes* homes)
    : context_(context),
      outbox_(outbox),
      closures_(closures),
      homes_(homes),
      mode_(context, outbox, closures),
      rates_(context, outbox),
      window_(context->options.test_faults),
      open_(context, outbox, closures, &mode_) {}

// ------------------------------------------------------------------ dispatch

bool Steps::Admits(const Closure& closure) const {
  // While the mode changes, only what has run before runs, and what a ring lacks.
  if (mode_.changing() && closure.in_line && !open_.lacks_ring_closures()) return false;
  switch (mode_.settings().mode) {
    case ConsistencyMode::kAsync:
      return !rates_.changing();
    case ConsistencyMode::kBounded:
      return !rates_.changing() && window_.Admits(closure.place, mode_.settings());
    case ConsistencyMode::kSync:
      return open_.Admits(closure);
  }
  return false;
}

bool Steps::AdmitsOthers() const { return !sync() || (at_boundary() && open_.AdmitsOthers()); }

void Steps::Enter(Closure* closure) {
  if (!closure->spec.training) return;
  if (mode_.settings().mode == ConsistencyMode::kBounded) window_.Enter(closure->place);
  if (sync()) open_.Enter(closure);
}

void Steps::Advance(uint64_t next_place, bool rolls_back) {
  // A tablet that moves to another server may not have closed the step there.
  if (!homes_->steady()) return;
  if (closing_.has_value() && closing_->closed()) FinishClose();
  if (open_.complete() && !rates_.changing()) BeginClose();
  if (!rolls_back && mode_.waits()) AdvanceMode(next_place);
}

// ------------------------------------------------------------------ closing

void Steps::BeginClose() {
  const ProtocolFaults& faults = context_->options.test_faults;
  if (closing_.has_value() && !faults.closes_before_closed) return;
  FinishMembers();  // none, unless `closes_before_closed`
  const auto [members, dropped] = open_.TakeMembers();
  CountWaiting(members);
  closing_.emplace(context_, outbox_, open_, members, homes_->primaries());
  open_.Begin(closing_->next());
  for (const StepMember& member : members) closing_members_.push_back(member.closure);
  for (const StepMember& member : dropped) closing_members_.push_back(member.closure);
  const bool skips = closing_->close().skip();
  if (skips) ++counters_.skipped;
  if (clips_by_norm_ && !skips) {
    closing_->Sum();
  } else {
    closing_->Send();
  }
  for (const StepMember& member : dropped) Drop(member.closure);
  if (faults.settles_before_closed) FinishMembers();
}

void Steps::FinishMembers() {
  for (const uint64_t id : std::exchange(closing_members_, {})) closures_->FinishHeard(id);
}

void Steps::FinishClose() {
  COHORT_CRASH_POINT("chief.step.closed");
  closing_.reset();
  repeated_from_ = Settlement::kNoLimit;
  ++counters_.steps_closed;
  FinishMembers();
}

void Steps::CountWaiting(const std::vector<StepMember>& members) {
  std::vector<int64_t> heard;
  for (const StepMember& member : members) heard.push_back(member.heard_us);
  std::sort(heard.begin(), heard.end());
  counters_.waited_us += heard.back() - heard[(heard.size() - 1) / 2];
}

void Steps::Drop(uint64_t closure) {
  ++counters_.dropped;
  Closure* const c = closures_->queue().Find(closure);
  if (c->state == Closure::State::kInFlight) {
    v1::ChiefToWorker message;
    message.mutable_cancel()->add_ids(closure);
    message.mutable_cancel()->set_timeline(context_->timeline);
    outbox_->ToWorker(c->worker, std::move(message));
  }
  v1::ClosureResult result;
  result.set_id(closure);
  result.set_steps(c->spec.steps);
  result.set_dropped(true);
  closures_->queue().Hear(c, std::move(result));
}

// ------------------------------------------------------------------ mode

void Steps::AdvanceMode(uint64_t next_place) {
  const ClosureQueue& queue = closures_->queue();
  const Closure* const waits = queue.NextTraining();
  // A closure that has run before may have been overtaken by later ones: it is finished first.
  const bool overtaken = waits != nullptr && !waits->in_line;
  const bool runs = queue.training_in_flight() + queue.heard() > 0 &&
                    !context_->options.test_faults.changes_mode_early;
  const UnfinishedClosures& unfinished = closures_->unfinished();
  if (runs || overtaken || !at_boundary() || unfinished.any_begun()) return;
  if (waits != nullptr) next_place = waits->place;
  mode_.Propose(open_.begin(), std::min(next_place, unfinished.first_place()));
}

void Steps::SetLearningRate(double rate, bool by_user, uint64_t next_place) {
  const Closure* const next = closures_->queue().NextTraining();
  const uint64_t place = next != nullptr && next->in_line ? next->place : next_place;
  rates_.Request(
      rate, by_user,
      sync() ? open_.begin().iteration() : place + static_cast<uint64_t>(mode_.iteration_offset()));
}

void Steps::OnJournaled(uint64_t record) {
  rates_.OnJournaled(record);
  if (!mode_.OnJournaled(record)) return;
  window_.Clear();
  open_.Begin(mode_.change()->position());
}

// ------------------------------------------------------------------ servers

void Steps::SetLayout(const v1::Layout& layout) {
  clips_ = clips_by_norm_ = false;
  for (const v1::OptimizerSpec& optimizer : layout.optimizers()) {
    // Servers refuse an optimizer that cannot be read.
    const GradientClipping clipping = GradientClipping::Of(optimizer).value_or(GradientClipping());
    clips_ = clips_ || clipping.kind != GradientClipping::Kind::kNone;
    clips_by_norm_ = clips_by_norm_ || clipping.by_norm();
  }
}

absl::Status Steps::OnPsMessage(int ps, const v1::PsToChief& message) {
  COHORT_RETURN_IF_ERROR(rates_.OnPsMessage(ps, message));
  return closing_.has_value() ? closing_->OnPsMessage(ps, message) : absl::OkStatus();
}

void Steps::OnPsReturned(int ps, const v1::PsHello& hello) {
  rates_.OnPsReturned(ps);
  if (closing_.has_value()) closing_->OnPsReturned(ps, hello);
}

void Steps::OnHomes(const std::set<int>& promoted) {
  if (closing_.has_value()) closing_->OnHomes(homes_->primaries(), promoted);
}

// ------------------------------------------------------------------ errors, restarts and rollbacks

void Steps::Abandon() {
  window_.Clear();
  open_.Abandon();
}

void Steps::LoseServer() {
  closing_.reset();
  for (const uint64_t id : std::exchange(closing_members_, {})) {
    if (closures_->queue().Find(id) != nullptr) closures_->Cancel(id);
  }
}

const v1::StepPosition& Steps::TakeOver(const std::optional<v1::ModeChange>& change,
                                        const v1::LearningRates& rates,
                                        const std::vector<const v1::PsHello*>& hellos) {
  const ProtocolFaults& faults = context_->options.test_faults;
  mode_.TakeOver(change);
  rates_.TakeOver(rates);
  v1::StepPosition newest =
      mode_.change().has_value() ? mode_.change()->position() : FirstBoundary();
  v1::CloseStep close;
  for (const v1::PsHello* const hello : hellos) {
    if (hello->timeline() != context_->timeline) continue;
    const v1::StepPosition& reached = hello->position();
    // A change of the mode may have moved the boundary since the last close.
    const bool newer =
        reached.open_step() > newest.open_step() ||
        (reached.open_step() == newest.open_step() && reached.next_place() > newest.next_place());
    if (newer) newest = reached;
    if (hello->has_last_close() && hello->last_close().step() >= close.step()) {
      close = hello->last_close();
    }
  }
  open_.Begin(newest);
  std::set<int> behind;  // the servers that have missed the close
  for (size_t ps = 0; sync() && ps < hellos.size(); ++ps) {
    const bool closed = hellos[ps]->position().open_step() >= newest.open_step();
    if (closed && !hellos[ps]->lacks_last_close()) continue;
    behind.insert(static_cast<int>(ps));
  }
  // Nothing was closed since a cut in async mode: its pending closures run before the first step.
  const auto unfinished = closures_->unfinished().List();
  const bool pending = !unfinished.empty() && unfinished.front().place < newest.next_place();
  if (sync() && close.step() == 0 && pending) {
    mode_.RunAsyncFirst(newest);
    // The ids of later places were reserved, and no chief has let them run before those. This one
    // does not either: a chief that follows would take them for closures of synchronous steps.
    closures_->unfinished().NoteNotBegunFrom(newest.next_place());
  }
  if (faults.repeats_other_members && close.members_size() > 1) {
    close.mutable_members()->RemoveLast();
  }
  closing_.reset();
  if (behind.empty() || faults.forgets_half_close) return open_.begin();
  for (const v1::StepMember& member : close.members()) {
    repeated_from_ = std::min(repeated_from_, member.closure());
  }
  closing_.emplace(context_, outbox_, std::move(close), std::move(behind));
  return open_.begin();
}

void Steps::Resume() {
  rates_.Resume();
  if (!sync()) return;
  counters_.lost_results += closures_->FinishBefore(open_.begin().next_place());
  if (!closing_.has_value()) return;
  closing_->OnHomes(homes_->primaries(), {});
  closing_->Send();
}

void Steps::RollBack(const v1::ChiefCut& cut) {
  repeated_from_ = Settlement::kNoLimit;
  const v1::StepPosition boundary = PositionOf(cut);
  mode_.RollBack(boundary);
  rates_.RollBack(cut.learning_rates());
  if (sync() && !cut.has_position() && cut.pending_size() > 0) mode_.RunAsyncFirst(boundary);
  open_.Begin(boundary);
  open_.Clear();
  closing_.reset();
  closing_members_.clear();
  window_.Clear();
}

std::string Steps::Waiting() const {
  if (closing_.has_value()) return closing_->Waiting();
  if (rates_.changing()) return rates_.Waiting();
  return mode_.changing() ? "waiting for the mode to change" : "";
}

}  // namespace cohort
