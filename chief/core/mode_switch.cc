#include "chief/core/mode_switch.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace cohort {
namespace {

// The most closures of a step; the job file has the same limit.
constexpr uint32_t kMostClosures = 4096;

int64_t OffsetOf(const v1::StepPosition& position) {
  return static_cast<int64_t>(position.iteration() - position.next_place());
}

v1::ModeChange ChangeTo(const ModeSettings& settings) {
  v1::ModeChange change;
  change.set_mode(NameOf(settings.mode));
  change.set_closures_per_step(settings.closures_per_step);
  change.set_backup_work(NameOf(settings.backup_work));
  change.set_replicas_to_aggregate(settings.replicas_to_aggregate);
  change.set_staleness(settings.staleness);
  return change;
}

ModeSettings SettingsOf(const v1::ModeChange& change) {
  return {.mode = ModeNamed(change.mode()).value_or(ConsistencyMode::kAsync),
          .closures_per_step = change.closures_per_step(),
          .backup_work = BackupWorkNamed(change.backup_work()).value_or(BackupWork::kNone),
          .replicas_to_aggregate = change.replicas_to_aggregate(),
          .staleness = change.staleness()};
}

}  // namespace

v1::StepPosition FirstBoundary() {
  v1::StepPosition position;
  position.set_open_step(1);
  return position;
}

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

ModeSwitch::ModeSwitch(const CoreContext* context, Outbox* outbox, OpenClosures* closures)
    : context_(context), outbox_(outbox), closures_(closures) {
  Use(context->options);
}

size_t ModeSwitch::ShareOf(size_t workers) const {
  if (settings_.mode == ConsistencyMode::kAsync) return SIZE_MAX;
  const size_t together = (sync() ? 1 : settings_.staleness + 1) * settings_.places_per_step();
  return (together + workers - 1) / workers;
}

absl::Status ModeSwitch::Request(const ModeSettings& settings, bool clips) {
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
  if (settings.mode == ConsistencyMode::kBounded && context_->options.hot_rows) {
    return FailedPrecondition(
        "the job has `strategy.hot_rows`: workers read copies of rows, which may lack more updates "
        "than mode bounded_staleness allows; continue it without `hot_rows` before you change the "
        "mode");
  }
  if (changing()) return FailedPrecondition("another change of the mode is under way");
  if (clips && (settings.mode == ConsistencyMode::kSync) != sync()) {
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

void ModeSwitch::Propose(const v1::StepPosition& boundary, uint64_t next_place) {
  proposed_ = ChangeTo(*next_);
  v1::StepPosition* const position = proposed_.mutable_position();
  *position = boundary;
  if (!sync()) {
    position->set_next_place(next_place);
    position->set_iteration(next_place + static_cast<uint64_t>(iteration_offset_));
  }
  // A chief that finds the change must find no closure of the old mode open: it would take it for
  // one of a closed step, or run it in the new mode.
  if (!context_->options.test_faults.changes_mode_unsettled) closures_->JournalSettled();
  record_ = Journal(proposed_);
}

uint64_t ModeSwitch::Journal(const v1::ModeChange& change) const {
  v1::JournalRecord record;
  *record.mutable_mode() = change;
  return outbox_->Append(std::move(record));
}

bool ModeSwitch::OnJournaled(uint64_t record) {
  if (!changing() || record_ == 0 || record < record_) return false;
  next_.reset();
  Apply(proposed_);
  outbox_->effects()->Note("mode_changed", fmt::format("to {} from place {}", proposed_.mode(),
                                                       proposed_.position().next_place()));
  return true;
}

void ModeSwitch::Apply(const v1::ModeChange& change) {
  change_ = change;
  Use(SettingsOf(change));
  iteration_offset_ = OffsetOf(change.position());
}

void ModeSwitch::Use(const ModeSettings& settings) {
  settings_ = settings;
  closures_->SetSync(sync());
}

void ModeSwitch::TakeOver(const std::optional<v1::ModeChange>& change) {
  if (!change.has_value()) return;
  if (!context_->options.test_faults.forgets_mode) Apply(*change);
  // The job file has been edited since: its mode is the newest wish.
  if (context_->options.mode_is_new) next_ = context_->options;
}

void ModeSwitch::RunAsyncFirst(const v1::StepPosition& boundary) {
  if (!changing()) next_ = settings_;
  record_ = 0;
  Use({.mode = ConsistencyMode::kAsync});
  iteration_offset_ = OffsetOf(boundary);
}

void ModeSwitch::RollBack(const v1::StepPosition& boundary) {
  // A change that is under way needs no other boundary than the cut.
  Use(next_.value_or(settings_));
  const bool changes = std::exchange(next_, std::nullopt).has_value() || change_.has_value();
  iteration_offset_ = OffsetOf(boundary);
  if (!changes && (sync() || iteration_offset_ == 0)) return;
  change_ = ChangeTo(settings_);
  *change_->mutable_position() = boundary;
  Journal(*change_);
}

}  // namespace cohort
