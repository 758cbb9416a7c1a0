#include "chief/core/rollback.h"

#include <algorithm>
#include <utility>

#include "chief/core/mode_switch.h"
#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/base/status_proto.h"

namespace cohort {

v1::AppliedSetProto FloorOf(const RollbackTarget& target) {
  v1::AppliedSetProto floor;
  uint64_t begin = target.pending.empty() ? target.reserved_end : target.pending.front();
  floor.set_watermark(begin);
  for (size_t i = 0; i < target.pending.size(); ++i) {
    begin = target.pending[i] + 1;
    const uint64_t end =
        i + 1 < target.pending.size() ? target.pending[i + 1] : target.reserved_end;
    if (begin >= end) continue;
    v1::ClosureRange* range = floor.add_closed();
    range->set_begin(begin);
    range->set_end(end);
  }
  return floor;
}

void Rollback::Begin(RollbackTarget target, const v1::Layout& layout,
                     std::vector<uint32_t> servers_of_host, int64_t now_us) {
  servers_of_host_ = std::move(servers_of_host);
  target_ = std::move(target);
  layout_ = layout;
  state_ = State::kJournaling;
  done_ = false;
  holds_settlement_ = true;
  deadline_us_ = now_us + options_->assign_deadline_us;
  v1::JournalRecord record;
  v1::Rollback* rollback = record.mutable_rollback();
  rollback->set_timeline(target_.timeline);
  rollback->set_cut_timeline(target_.cut_timeline);
  rollback->set_cut_generation(target_.cut_generation);
  rollback->set_cut(target_.cut);
  rollback->set_reserved_end(target_.reserved_end);
  rollback->set_manifest(target_.manifest);
  rollback->set_layout_hash(target_.layout_hash);
  record_ = outbox_->Append(std::move(record));
}

bool Rollback::OnJournaled(uint64_t record, int64_t now_us) {
  if (state_ != State::kJournaling || record < record_) return false;
  COHORT_CRASH_POINT("chief.rollback.journaled");
  state_ = State::kAssigning;
  holds_settlement_ = false;
  v1::ChiefToPs message;
  v1::AssignTablets* assign = message.mutable_assign();
  *assign->mutable_layout() = layout_;
  assign->set_timeline(target_.timeline);
  assign->set_term(target_.term);
  assign->set_restore_from(target_.manifest);
  if (target_.manifest.empty()) assign->set_initial_values(options_->initial_values);
  *assign->mutable_floor() = FloorOf(target_);
  *assign->mutable_position() = PositionOf(target_.chief);
  if (target_.chief.has_learning_rates()) {
    *assign->mutable_learning_rates() = target_.chief.learning_rates();
  }
  homes_->Assign(layout_, target_.term);
  requests_.assign(options_->ps.size(), 0);
  assign->set_table_memory_bytes(options_->table_memory_bytes);
  assign->set_table_directory(options_->table_directory);
  progress_.assign(options_->ps.size(), ProgressWatch(now_us));
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (homes_->drained(static_cast<int>(i))) continue;
    assign->set_ps(static_cast<uint32_t>(i));
    assign->set_servers_of_host(i < servers_of_host_.size() ? servers_of_host_[i] : 0);
    requests_[i] = outbox_->AskPs(static_cast<int>(i), message);
  }
  return true;
}

bool Rollback::OnPsMessage(int ps, const v1::PsToChief& message, int64_t now_us) {
  if (state_ != State::kAssigning && state_ != State::kTakingHomes) return false;
  uint64_t& request = requests_[static_cast<size_t>(ps)];
  if (message.request() == 0 || message.request() != request) return false;
  if (message.has_progress()) {
    progress_[static_cast<size_t>(ps)].Note(message.progress().bytes(), now_us);
    return true;
  }
  const std::string name = ShortTaskName(*options_, PsTask(ps));
  const absl::Status status = StatusFromProto(message.status());
  if (!status.ok()) {
    Fail(Annotate(status, name));
    return true;
  }
  if (state_ == State::kTakingHomes) {
    request = 0;
    if (!AllAnswered()) return true;
    state_ = State::kIdle;
    done_ = true;
    return true;
  }
  if (!message.has_assigned() || message.assigned().timeline() != target_.timeline) {
    Fail(Internal("{} answered the assignment of tablets with another message", name));
    return true;
  }
  if (target_.manifest.empty() && message.assigned().initial_values() != options_->initial_values) {
    Fail(FailedPrecondition(
        "{} is of a version that cannot begin with initial weights: install the chief's version",
        name));
    return true;
  }
  request = 0;
  if (!AllAnswered()) return true;
  if (homes_->replicated()) {
    TellHomes(now_us);
  } else {
    state_ = State::kIdle;
    done_ = true;
  }
  return true;
}

bool Rollback::AllAnswered() const {
  return std::all_of(requests_.begin(), requests_.end(), [](uint64_t r) { return r == 0; });
}

void Rollback::TellHomes(int64_t now_us) {
  state_ = State::kTakingHomes;
  progress_.assign(requests_.size(), ProgressWatch(now_us));
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (homes_->drained(static_cast<int>(i))) continue;
    requests_[i] = outbox_->AskPs(static_cast<int>(i), homes_->MessageFor(static_cast<int>(i)));
  }
}

void Rollback::Tick(int64_t now_us) {
  if (state_ == State::kJournaling && now_us >= deadline_us_) {
    return Fail(DeadlineExceeded("assigning the tablets: the journal did not answer in {} s",
                                 options_->assign_deadline_us / 1'000'000));
  }
  const bool waits = state_ == State::kAssigning || state_ == State::kTakingHomes;
  for (size_t i = 0; waits && active() && i < requests_.size(); ++i) {
    if (requests_[i] == 0 || now_us - progress_[i].moved_us() < options_->assign_deadline_us) {
      continue;
    }
    return Fail(DeadlineExceeded("assigning the tablets: {} has {} {}: does its storage answer?",
                                 ShortTaskName(*options_, PsTask(static_cast<int>(i))),
                                 target_.manifest.empty() ? "made" : "read",
                                 progress_[i].ToString(now_us)));
  }
}

void Rollback::Fail(const absl::Status& why) {
  if (!active()) return;
  state_ = State::kIdle;
  outbox_->effects()->RollbackDone(why);
}

}  // namespace cohort
