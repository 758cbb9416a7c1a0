#include "chief/core/step_gate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/optimizers/gradient_clipping.h"

namespace cohort {
namespace {

v1::StepPosition Begin() {
  v1::StepPosition position;
  position.set_open_step(1);
  return position;
}

int64_t OffsetOf(const v1::StepPosition& position) {
  return static_cast<int64_t>(position.iteration() - position.next_place());
}

LossScale ScaleAt(const v1::StepPosition& position, const LossScaling& scaling) {
  return {scaling, position.loss_scale().scale(), position.loss_scale().finite_steps()};
}

// The names of the job file, by value.
constexpr const char* kModes[] = {"async", "sync", "bounded_staleness"};
constexpr const char* kBackupWork[] = {"none", "speculative", "drop"};

template <size_t n>
size_t IndexOf(const char* const (&names)[n], std::string_view name) {
  const auto found = std::find(names, names + n, name);
  return found == names + n ? 0 : static_cast<size_t>(found - names);
}

v1::ModeChange ChangeTo(const ModeSettings& settings) {
  v1::ModeChange change;
  change.set_mode(kModes[static_cast<size_t>(settings.mode)]);
  change.set_closures_per_step(settings.closures_per_step);
  change.set_backup_work(kBackupWork[static_cast<size_t>(settings.backup_work)]);
  change.set_replicas_to_aggregate(settings.replicas_to_aggregate);
  change.set_staleness(settings.staleness);
  return change;
}

ModeSettings SettingsOf(const v1::ModeChange& change) {
  return {.mode = static_cast<ConsistencyMode>(IndexOf(kModes, change.mode())),
          .closures_per_step = change.closures_per_step(),
          .backup_work = static_cast<BackupWork>(IndexOf(kBackupWork, change.backup_work())),
          .replicas_to_aggregate = change.replicas_to_aggregate(),
          .staleness = change.staleness()};
}

}  // namespace

v1::StepPosition PositionOf(const v1::ChiefCut& cut) {
  v1::StepPosition position = cut.position();
  if (!cut.has_position()) {
    // In async mode each place is an update.
    const v1::StepPosition& begin = cut.mode().position();
    position.set_open_step(begin.open_step());
    position.set_next_place(cut.next_place());
    position.set_iteration(cut.next_place() + static_cast<uint64_t>(OffsetOf(begin)));
    if (begin.has_loss_scale()) *position.mutable_loss_scale() = begin.loss_scale();
  }
  position.set_open_step(std::max<uint64_t>(position.open_step(), 1));
  return position;
}

// The most closures of a step; the job file has the same limit.
constexpr uint32_t kMostClosures = 4096;
constexpr int64_t kSlowCloseUs = 3'000'000;  // most closes take milliseconds

StepGate::StepGate(const CoreContext* context, Outbox* outbox, OpenClosures* closures)
    : context_(context),
      outbox_(outbox),
      closures_(closures),
      settings_(context->options),
      position_(Begin()) {
  closures_->SetSync(sync());
}

double StepGate::loss_scale() const {
  const LossScaling& scaling = context_->options.loss_scaling;
  return sync() && scaling.enabled() ? ScaleAt(position_, scaling).scale() : 0;
}

// ------------------------------------------------------------------ dispatch

bool StepGate::IsFull() const {
  if (members_.size() >= closures_per_step()) return true;
  return !members_.empty() && places_end_ > 0 && next_place_ >= places_end_;
}

uint32_t StepGate::RingClosures(const ClosureSpec& first) const {
  if (!context_->options.ring || !sync() || settings_.backup_work != BackupWork::kNone) return 0;
  if (!first.by_job || first.places_end <= first.place) return 0;
  const uint64_t closures = std::min(closures_per_step(), first.places_end - first.place);
  return closures < context_->options.workers.size() ? 0 : static_cast<uint32_t>(closures);
}

int StepGate::WorkerOf(const Closure& closure) const {
  const uint32_t closures = members_.empty() ? RingClosures(closure.spec) : ring_closures_;
  const uint64_t index = closure.step.sync() ? closure.step.index : members_.size();
  if (index >= closures) return -1;  // no ring, or the open step is full
  return static_cast<int>(index * context_->options.workers.size() / closures);
}

bool StepGate::Admits(const Closure& closure) const {
  // A ring needs all closures of its step.
  const bool completes = !members_.empty() && ring_closures_ > 0;
  if (next_.has_value() && closure.in_line && !completes) return false;
  if (settings_.mode == ConsistencyMode::kBounded) {
    const uint64_t oldest = running_.empty() ? closure.spec.place : *running_.begin();
    return closure.spec.place / closures_per_step() <=
           oldest / closures_per_step() + settings_.staleness +
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

bool StepGate::AdmitsOthers() const {
  if (!sync()) return true;
  if (!members_.empty() || !closing_.empty()) return false;
  // The step begins when none of them is in flight. A client that always schedules more would prevent
  // it forever.
  const ClosureQueue& queue = closures_->queue();
  const Closure* const training = queue.NextTraining();
  const bool begins = training != nullptr && !next_.has_value();
  return !begins || queue.Next(/*training=*/false) < training->id;
}

void StepGate::Enter(Closure* closure) {
  const ClosureSpec& spec = closure->spec;
  if (!spec.training) return;
  if (settings_.mode == ConsistencyMode::kBounded) running_.insert(spec.place);
  if (!sync() || closure->step.sync()) return;
  if (step_try_ == 0) step_try_ = outbox_->generation() << 32;
  if (members_.empty()) ring_closures_ = RingClosures(spec);
  closure->ring_places = 0;
  for (uint64_t i = 0; i < ring_closures_; ++i) {
    const uint64_t worker = i * context_->options.workers.size() / ring_closures_;
    closure->ring_places += static_cast<int>(worker) == closure->worker ? 1 : 0;
  }
  closure->step = {.step = position_.open_step(),
                   .step_try = step_try_,
                   .index = static_cast<uint32_t>(members_.size()),
                   .partial = settings_.backup_work == BackupWork::kDrop};
  members_.push_back({closure->id, closure->step.index});
  next_place_ = spec.place + spec.steps;
  places_end_ = spec.by_job ? spec.places_end : 0;
}

size_t StepGate::ShareOf(size_t workers) const {
  if (settings_.mode == ConsistencyMode::kAsync) return SIZE_MAX;
  const size_t together =
      sync() ? closures_per_step() : (settings_.staleness + 1) * closures_per_step();
  return (together + workers - 1) / workers;
}

// ------------------------------------------------------------------ results

void StepGate::OnHeard(Closure* closure, v1::ClosureResult* result) {
  const uint32_t index = closure->step.index;
  members_[index].not_finite = result->not_finite_steps() > 0;
  closures_->Hear(closure, result);
  members_[index].heard = true;
  const auto& clock_us = context_->options.clock_us;
  members_[index].heard_us = clock_us ? clock_us() : context_->now_us;
  ++heard_;
}

void StepGate::OnEnded(const Closure& closure) { running_.erase(closure.spec.place); }

// ------------------------------------------------------------------ mode

absl::Status StepGate::SetMode(const ModeSettings& settings) {
  const bool drop = settings.backup_work == BackupWork::kDrop;
  if (settings.closures_per_step > kMostClosures ||
      (drop && (settings.replicas_to_aggregate == 0 ||
                settings.replicas_to_aggregate > settings.closures_per_step))) {
    return InvalidArgument("a step of {} closures, of which {} close it",
                           settings.closures_per_step, settings.replicas_to_aggregate);
  }
  if (settings.mode != ConsistencyMode::kAsync && context_->options.pull_ahead > 0) {
    return FailedPrecondition(
        "the job has `pull_ahead: {}`, which applies to mode async: continue it with `pull_ahead: "
        "0` "
        "before you change the mode",
        context_->options.pull_ahead);
  }
  if (next_.has_value()) return FailedPrecondition("another change of the mode is under way");
  if (clips_ && (settings.mode == ConsistencyMode::kSync) != sync()) {
    return FailedPrecondition(
        "an optimizer clips gradients: in mode sync the servers do so, in other modes the programs "
        "of "
        "the workers; stop the job, and continue it with another `strategy.mode`");
  }
  if (settings.mode == ConsistencyMode::kSync && closures_->queue().has_long_closures()) {
    return FailedPrecondition(
        "closures with several steps are queued, and a closure of mode sync has one: the job needs "
        "steps_per_execution 1");
  }
  next_ = settings;
  record_ = 0;
  return absl::OkStatus();
}

void StepGate::Advance(uint64_t next_place, bool rolls_back) {
  CloseIfComplete();
  if (!rolls_back) AdvanceMode(next_place);
}

void StepGate::AdvanceMode(uint64_t next_place) {
  if (!next_.has_value() || record_ != 0) return;
  const ClosureQueue& queue = closures_->queue();
  const Closure* const waits = queue.NextTraining();
  // A closure that has run before may have been overtaken by later ones: it is finished first.
  const bool overtaken = waits != nullptr && !waits->in_line;
  const size_t running = context_->options.test_faults.changes_mode_early
                             ? 0
                             : queue.training_in_flight() + queue.heard();
  if (running > 0 || overtaken || !closing_.empty() || !closures_->unfinished().List().empty()) {
    return;
  }
  if (waits != nullptr) next_place = waits->spec.place;
  proposed_ = ChangeTo(*next_);
  v1::StepPosition* const position = proposed_.mutable_position();
  *position = position_;
  if (!sync()) {
    position->set_next_place(next_place);
    position->set_iteration(next_place + static_cast<uint64_t>(iteration_offset_));
  }
  // A chief that finds the change must find no closure of the old mode open: it would take it for one
  // of a closed step, or run it in the new mode.
  if (!context_->options.test_faults.changes_mode_unsettled) closures_->JournalSettled();
  record_ = Journal(proposed_);
}

uint64_t StepGate::Journal(const v1::ModeChange& change) const {
  v1::JournalRecord record;
  *record.mutable_mode() = change;
  return outbox_->Append(std::move(record));
}

void StepGate::OnJournaled(uint64_t record) {
  if (!next_.has_value() || record_ == 0 || record < record_) return;
  next_.reset();
  Apply(proposed_);
  outbox_->effects()->Note("mode_changed", fmt::format("to {} from place {}", proposed_.mode(),
                                                       proposed_.position().next_place()));
}

void StepGate::Apply(const v1::ModeChange& change) {
  change_ = change;
  Use(SettingsOf(change));
  position_ = change.position();
  next_place_ = position_.next_place();
  iteration_offset_ = OffsetOf(position_);
}

void StepGate::Use(const ModeSettings& settings) {
  settings_ = settings;
  running_.clear();
  closures_->SetSync(sync());
}

void StepGate::AddWaiting(int clients) { waiting_ += clients; }

void StepGate::CloseIfComplete() {
  const CoreTestFaults& faults = context_->options.test_faults;
  if (members_.empty() || (!closing_.empty() && !faults.closes_before_closed)) return;
  const bool drop = settings_.backup_work == BackupWork::kDrop;
  const size_t needed =
      drop ? std::min<size_t>(members_.size(), settings_.replicas_to_aggregate) : members_.size();
  if (heard_ < needed) return;
  const bool client_waits =
      waiting_ > 0 && places_end_ == 0 && !closures_->queue().training_waits();
  const bool may_be_short = ring_closures_ == 0 && (client_waits || next_.has_value());
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
  std::vector<Member> dropped;
  for (const Member& member : members_) {
    if (!member.heard || closing_members_.size() == needed) {
      dropped.push_back(member);
      continue;
    }
    v1::StepMember* const out = close_.add_members();
    out->set_closure(member.closure);
    out->set_index(member.index);
    closing_members_.push_back(member);
  }
  CountWaiting();
  ScaleLoss();
  // They end with the step: a chief that dies before may have closed it nowhere.
  closing_members_.insert(closing_members_.end(), dropped.begin(), dropped.end());
  position_.set_open_step(close_.step() + 1);
  position_.set_iteration(close_.iteration() + (close_.skip() ? 0 : 1));
  position_.set_next_place(close_.next_place());
  members_.clear();
  heard_ = 0;
  squares_.clear();
  closing_since_us_ = context_->now_us;
  const bool needs_norms = clips_by_norm_ && !close_.skip();
  for (int ps = 0; ps < static_cast<int>(context_->options.ps.size()); ++ps) {
    closing_.insert(ps);
    if (needs_norms) SendSum(ps);
  }
  if (!needs_norms) SendCloseToAll();
  for (const Member& member : dropped) Drop(member.closure);
  if (!faults.settles_before_closed) return;
  for (const Member& member : std::exchange(closing_members_, {})) {
    closures_->FinishHeard(member.closure);
  }
}

void StepGate::ScaleLoss() {
  const LossScaling& scaling = context_->options.loss_scaling;
  if (!scaling.enabled()) return;
  LossScale scale = ScaleAt(position_, scaling);
  const double before = scale.scale();
  const bool finite = std::none_of(closing_members_.begin(), closing_members_.end(),
                                   [](const Member& member) { return member.not_finite; });
  scale.OnStep(before, finite);
  close_.set_skip(!finite);
  close_.mutable_loss_scale()->set_scale(scale.scale());
  close_.mutable_loss_scale()->set_finite_steps(scale.finite_steps());
  *position_.mutable_loss_scale() = close_.loss_scale();
  if (!finite) ++counters_.skipped;
  if (scale.scale() >= before) return;
  outbox_->effects()->Note("loss_scale_halved",
                           fmt::format("to {} behind step {}, whose gradient is not finite",
                                       scale.scale(), close_.step()));
}

void StepGate::CountWaiting() {
  std::vector<int64_t> heard;
  for (const Member& member : closing_members_) heard.push_back(member.heard_us);
  std::sort(heard.begin(), heard.end());
  counters_.waited_us += heard.back() - heard[(heard.size() - 1) / 2];
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

void StepGate::SendSum(int ps) {
  v1::ChiefToPs message;
  v1::SumStep* const sum = message.mutable_sum_step();
  sum->set_step(close_.step());
  sum->set_step_try(close_.step_try());
  sum->set_timeline(close_.timeline());
  *sum->mutable_members() = close_.members();
  summing_[ps] = outbox_->AskPs(ps, std::move(message));
}

void StepGate::SendCloseToAll() {
  for (const int ps : closing_) SendClose(ps);
  COHORT_CRASH_POINT("chief.step.closing");
}

void StepGate::SendClose(int ps) {
  v1::ChiefToPs message;
  *message.mutable_close_step() = close_;
  close_requests_[ps] = outbox_->AskPs(ps, std::move(message));
}

absl::Status StepGate::ErrorOf(int ps, const v1::PsToChief& message) const {
  if (message.status().code() == 0 || message.request() == 0) return absl::OkStatus();
  const auto close = close_requests_.find(ps);
  const auto sum = summing_.find(ps);
  const bool known = (close != close_requests_.end() && close->second == message.request()) ||
                     (sum != summing_.end() && sum->second == message.request());
  if (!known) return absl::OkStatus();
  return Annotate(StatusFromProto(message.status()),
                  fmt::format("{} could not close step {}", TaskName(context_->options, PsTask(ps)),
                              close_.step()));
}

// ------------------------------------------------------------------ servers

void StepGate::SetLayout(const v1::Layout& layout) {
  clips_ = clips_by_norm_ = false;
  for (const v1::OptimizerSpec& optimizer : layout.optimizers()) {
    // Servers refuse an optimizer that cannot be read.
    const GradientClipping clipping = GradientClipping::Of(optimizer).value_or(GradientClipping());
    clips_ = clips_ || clipping.kind != GradientClipping::Kind::kNone;
    clips_by_norm_ = clips_by_norm_ || clipping.by_norm();
  }
}

absl::Status StepGate::OnStepSummed(int ps, const v1::PsToChief& answer) {
  const auto asked = summing_.find(ps);
  if (asked == summing_.end() || asked->second != answer.request()) return absl::OkStatus();
  for (const v1::GradientNorm& norm : answer.step_summed().norms()) {
    COHORT_ASSIGN_OR_RETURN(const ExactSum squares, ExactSum::Parse(norm.squares()));
    squares_[{norm.optimizer(), norm.variable()}].Add(squares);
  }
  summing_.erase(asked);
  if (!summing_.empty()) return absl::OkStatus();
  for (const auto& [key, squares] : squares_) {
    v1::GradientNorm* const norm = close_.add_norms();
    norm->set_optimizer(key.first);
    norm->set_variable(key.second);
    norm->set_norm(std::sqrt(squares.ToDouble()));
  }
  SendCloseToAll();
  return absl::OkStatus();
}

uint64_t StepGate::first_of_repeated_close() const {
  uint64_t first = std::numeric_limits<uint64_t>::max();
  if (!repeats_close_) return first;
  for (const v1::StepMember& member : close_.members()) first = std::min(first, member.closure());
  return first;
}

void StepGate::OnStepClosed(int ps, uint64_t step) {
  if (closing_.empty() || step != close_.step() || closing_.erase(ps) == 0) return;
  if (closing_.empty()) FinishClosing();
}

void StepGate::FinishClosing() {
  COHORT_CRASH_POINT("chief.step.closed");
  repeats_close_ = false;
  ++counters_.steps_closed;
  for (const Member& member : std::exchange(closing_members_, {})) {
    closures_->FinishHeard(member.closure);
  }
}

void StepGate::OnPsReturned(int ps, const v1::PsHello& hello) {
  if (!closing_.contains(ps)) return;
  if (!summing_.empty()) {
    if (summing_.contains(ps)) SendSum(ps);
    return;
  }
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
  heard_ = 0;
  for (const Member& member : std::exchange(members_, {})) closures_->LeaveStep(member.closure);
  v1::ChiefToPs message;
  message.mutable_abandon_step()->set_step(position_.open_step());
  message.mutable_abandon_step()->set_step_try(step_try_);
  message.mutable_abandon_step()->set_timeline(context_->timeline);
  for (int ps = 0; ps < static_cast<int>(context_->options.ps.size()); ++ps) {
    outbox_->ToPs(ps, message);
  }
}

void StepGate::LoseServer() {
  closing_.clear();
  summing_.clear();
  for (const Member& member : std::exchange(closing_members_, {})) {
    if (closures_->Find(member.closure) != nullptr) closures_->Cancel(member.closure);
  }
}

const v1::StepPosition& StepGate::TakeOver(const std::optional<v1::ModeChange>& change,
                                           const std::vector<const v1::PsHello*>& hellos) {
  position_ = Begin();
  if (change.has_value() && !context_->options.test_faults.forgets_mode) Apply(*change);
  // The job file has been edited since: its mode is the newest wish.
  if (change.has_value() && context_->options.mode_is_new) next_ = context_->options;
  close_.Clear();
  for (const v1::PsHello* const hello : hellos) {
    if (hello->timeline() != context_->timeline) continue;
    const v1::StepPosition& reached = hello->position();
    // A change of the mode may have moved the boundary since the last close.
    const bool newer = reached.open_step() > position_.open_step() ||
                       (reached.open_step() == position_.open_step() &&
                        reached.next_place() > position_.next_place());
    if (newer) position_ = reached;
    if (hello->has_last_close() && hello->last_close().step() >= close_.step()) {
      close_ = hello->last_close();
    }
  }
  closing_.clear();
  summing_.clear();
  for (size_t ps = 0; sync() && ps < hellos.size(); ++ps) {
    if (hellos[ps]->position().open_step() < position_.open_step()) {
      closing_.insert(static_cast<int>(ps));
    }
  }
  const CoreTestFaults& faults = context_->options.test_faults;
  if (faults.repeats_other_members && close_.members_size() > 1) {
    close_.mutable_members()->RemoveLast();
  }
  if (faults.forgets_half_close) closing_.clear();
  repeats_close_ = !closing_.empty();  // as soon as the variables are served
  next_place_ = position_.next_place();
  // Nothing was closed since a cut in async mode: its pending closures run before the first step.
  const auto unfinished = closures_->unfinished().List();
  const bool pending = !unfinished.empty() && unfinished.front().place < position_.next_place();
  if (sync() && close_.step() == 0 && pending) RunAsyncFirst();
  return position_;
}

void StepGate::RunAsyncFirst() {
  if (!next_.has_value()) next_ = settings_;
  record_ = 0;
  Use({.mode = ConsistencyMode::kAsync});
  iteration_offset_ = OffsetOf(position_);
}

void StepGate::Resume() {
  if (!sync()) return;
  counters_.lost_results += closures_->FinishBefore(position_.next_place());
  repeats_close_ = !closing_.empty();
  for (const int ps : closing_) SendClose(ps);
}

void StepGate::RollBack(const v1::ChiefCut& cut) {
  repeats_close_ = false;
  // The mode is not rolled back. A change that is under way needs no other boundary than the cut.
  Use(next_.value_or(settings_));
  const bool changes = std::exchange(next_, std::nullopt).has_value() || change_.has_value();
  position_ = PositionOf(cut);
  iteration_offset_ = OffsetOf(position_);
  if (changes || (!sync() && iteration_offset_ != 0)) {
    change_ = ChangeTo(settings_);
    *change_->mutable_position() = position_;
    Journal(*change_);
  }
  if (sync() && !cut.has_position() && cut.pending_size() > 0) RunAsyncFirst();
  members_.clear();
  heard_ = 0;
  closing_members_.clear();
  closing_.clear();
  summing_.clear();
  running_.clear();
  places_end_ = 0;
  next_place_ = position_.next_place();
}

std::string StepGate::Waiting() const {
  if (closing_.empty() && next_.has_value()) return "waiting for the mode to change";
  if (closing_.empty() || context_->now_us - closing_since_us_ < kSlowCloseUs) return "";
  return fmt::format("waiting for {} to close step {}",
                     TaskName(context_->options, PsTask(*closing_.begin())), close_.step());
}

}  // namespace cohort
