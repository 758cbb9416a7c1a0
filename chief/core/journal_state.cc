#include "chief/core/journal_state.h"

#include <algorithm>
#include <utility>

#include "chief/core/finished_closures.h"
#include "chief/core/mode_switch.h"
#include "chief/core/rate_switch.h"
#include "common/base/status.h"

namespace cohort {

void JournalState::Open(const UnfinishedClosure& closure) {
  open_[closure.id] = closure;
  by_place_[closure.place] = closure.id;
}

void JournalState::OnReserve(const v1::ReserveClosures& block) {
  state_.reserved_end = std::max(state_.reserved_end, block.first_id() + block.count());
  if (!block.by_job() || block.timeline() != state_.timeline || block.steps() == 0) return;
  for (uint64_t i = 0; i < block.count(); ++i) {
    const uint64_t place = block.first_place() + i * block.steps();
    if (place >= block.max_places()) break;
    const uint64_t steps = std::min<uint64_t>(block.steps(), block.max_places() - place);
    // A later block for a place replaces the unused ids of an earlier block.
    if (const auto older = by_place_.find(place); older != by_place_.end()) {
      open_.erase(older->second);
    }
    Open({.id = block.first_id() + i, .place = place, .steps = static_cast<uint32_t>(steps)});
    state_.next_place = std::max(state_.next_place, place + steps);
  }
}

void JournalState::OnSettle(const v1::Settle& settle) {
  const auto close = [&](uint64_t id) {
    const auto found = open_.find(id);
    if (found == open_.end()) return;
    by_place_.erase(found->second.place);
    open_.erase(found);
  };
  if (!missing_.ok()) {
    settled_.insert(settle.finished().begin(), settle.finished().end());
    settled_below_ = std::max(settled_below_, settle.watermark());
    settle_record_ = state_.next_record - 1;
  }
  while (!open_.empty() && open_.begin()->first < settle.watermark()) close(open_.begin()->first);
  for (const uint64_t id : settle.finished()) close(id);
  state_.metrics = SettledMetricsFromProto(settle.metrics());
  state_.steps = settle.step();
  state_.readers.Add(settle.readers());
}

absl::Status JournalState::OnRollback(const v1::Rollback& rollback) {
  if (rollback.timeline() <= state_.timeline) {
    return DataLoss("the journal rolls back to timeline {} after timeline {}", rollback.timeline(),
                    state_.timeline);
  }
  state_.layout_hash = rollback.layout_hash();
  state_.timeline = rollback.timeline();
  state_.began_from = rollback.manifest();
  state_.reserved_end = std::max(state_.reserved_end, rollback.reserved_end());
  state_.rolled_back_end = state_.reserved_end;
  state_.min_attempt = AttemptBase(EraOf(generation_, state_.timeline)) + 1;
  state_.metrics.clear();
  state_.readers = {};
  state_.steps = state_.epoch = state_.next_place = 0;
  open_.clear();
  by_place_.clear();
  missing_ = absl::OkStatus();
  settled_.clear();
  settled_below_ = settle_record_ = 0;
  MoveMode(v1::ChiefCut());
  state_.history.clear();
  // The assignment places the tablets; servers that were drained get none.
  if (state_.homes.has_value()) state_.homes->clear_homes();
  if (state_.homes.has_value() && state_.homes->drained_size() == 0) state_.homes.reset();
  state_.rates = RatesAfterRollback(v1::LearningRates(), state_.rates);
  if (rollback.manifest().empty()) return absl::OkStatus();
  const absl::StatusOr<v1::Manifest> manifest = read_manifest_(rollback.manifest());
  if (absl::IsNotFound(manifest.status())) {
    missing_ = manifest.status();
    return absl::OkStatus();
  }
  COHORT_RETURN_IF_ERROR(manifest.status());
  const v1::ChiefCut& cut = manifest->chief();
  state_.metrics = SettledMetricsFromProto(cut.metrics());
  state_.epoch = manifest->epoch();
  state_.next_place = cut.next_place();
  state_.steps = FinishedSteps(cut);
  state_.readers.Add(cut.readers());
  MoveMode(cut);
  state_.rates = RatesAfterRollback(cut.learning_rates(), state_.rates);
  OpenPending(cut);
  return absl::OkStatus();
}

// A rollback keeps the mode. The chief may die before it has journaled it with the new boundary.
void JournalState::MoveMode(const v1::ChiefCut& cut) {
  if (state_.mode.has_value()) *state_.mode->mutable_position() = PositionOf(cut);
}

void JournalState::OpenPending(const v1::ChiefCut& cut) {
  for (const v1::PendingClosure& pending : cut.pending()) {
    if (pending.id() < settled_below_ || settled_.contains(pending.id())) continue;
    Open({.id = pending.id(), .place = pending.place(), .steps = pending.steps()});
  }
}

// If the manifest of the rollback is gone, the manifest of a later cut names the pending closures
// of the rollback's cut.
absl::Status JournalState::OnCut(const v1::CutCommitted& cut) {
  state_.next_cut = std::max(state_.next_cut, cut.cut() + 1);
  if (missing_.ok() || cut.timeline() != state_.timeline) return absl::OkStatus();
  const absl::StatusOr<v1::Manifest> manifest = read_manifest_(cut.manifest());
  if (absl::IsNotFound(manifest.status())) return absl::OkStatus();
  COHORT_RETURN_IF_ERROR(manifest.status());
  if (manifest->timeline() != state_.timeline) return absl::OkStatus();
  const v1::ChiefCut& chief = manifest->chief();
  // The cut's metrics count unless a later record has newer ones.
  if (settle_record_ <= chief.journal_record() && manifest->epoch() >= state_.epoch) {
    v1::Settle settle;
    settle.set_watermark(chief.settled_watermark());
    const std::vector<uint64_t> finished = FinishedOf(chief);
    settle.mutable_finished()->Add(finished.begin(), finished.end());
    *settle.mutable_metrics() = chief.metrics();
    settle.set_step(FinishedSteps(chief));
    OnSettle(settle);
  }
  if (state_.mode.has_value() && chief.next_place() > state_.mode->position().next_place()) {
    MoveMode(chief);
  }
  // Those of a later record replace all.
  if (chief.learning_rates().rates_size() > state_.rates.rates_size()) {
    state_.rates = chief.learning_rates();
  }
  OpenPending(chief);
  state_.readers.Add(chief.readers());
  state_.next_place = std::max(state_.next_place, chief.next_place());
  state_.epoch = std::max(state_.epoch, manifest->epoch());
  missing_ = absl::OkStatus();
  return absl::OkStatus();
}

absl::Status JournalState::Apply(const v1::JournalRecord& record) {
  if (record.number() < state_.next_record) {
    return DataLoss("the journal's record {} comes after record {}", record.number(),
                    state_.next_record - 1);
  }
  state_.next_record = record.number() + 1;
  if (record.has_counters()) state_.counters = record.counters();
  switch (record.body_case()) {
    case v1::JournalRecord::kStart:
      // If there are earlier records, they name the timeline.
      if (generation_ == 0) state_.timeline = record.start().timeline();
      generation_ = record.start().generation();
      break;
    case v1::JournalRecord::kReserve:
      OnReserve(record.reserve());
      break;
    case v1::JournalRecord::kSettle:
      OnSettle(record.settle());
      break;
    case v1::JournalRecord::kRollback:
      return OnRollback(record.rollback());
    case v1::JournalRecord::kCut:
      return OnCut(record.cut());
    case v1::JournalRecord::kEpoch:
      state_.epoch = record.epoch().epoch() + 1;
      state_.metrics.clear();
      if (record.epoch().has_record()) state_.history.push_back(record.epoch().record());
      break;
    case v1::JournalRecord::kFinished:
      state_.finished = true;
      break;
    case v1::JournalRecord::kMode:
      state_.mode = record.mode();
      break;
    case v1::JournalRecord::kLearningRates:
      state_.rates = record.learning_rates();
      break;
    case v1::JournalRecord::kHomes:
      state_.homes = record.homes();
      break;
    case v1::JournalRecord::kJoined:
      state_.joined = record.joined();
      break;
    case v1::JournalRecord::kBase:
      OnBase(record.base());
      break;
    case v1::JournalRecord::BODY_NOT_SET:
      return DataLoss("the journal's record {} is of an unknown kind", record.number());
  }
  return absl::OkStatus();
}

absl::StatusOr<Recovered> JournalState::Recover(const std::string& newest) {
  if (!missing_.ok() && !newest.empty()) {
    v1::CutCommitted cut;
    cut.set_timeline(state_.timeline);
    cut.set_manifest(newest);
    const uint64_t next_cut = state_.next_cut;
    COHORT_RETURN_IF_ERROR(OnCut(cut));
    state_.next_cut = next_cut;
  }
  if (!missing_.ok()) return missing_;
  Recovered recovered = state_;
  recovered.unfinished.reserve(open_.size());
  for (const auto& [id, closure] : open_) recovered.unfinished.push_back(closure);
  recovered.watermark = open_.empty() ? state_.reserved_end : open_.begin()->first;
  return recovered;
}

std::optional<v1::JournalRecord> JournalState::Base() const {
  if (state_.next_record == 1 || !missing_.ok()) return std::nullopt;
  v1::JournalRecord record;
  record.set_number(state_.next_record - 1);
  *record.mutable_counters() = state_.counters;
  v1::JournalBase* const base = record.mutable_base();
  base->set_generation(generation_);
  base->set_timeline(state_.timeline);
  base->set_began_from(state_.began_from);
  base->set_reserved_end(state_.reserved_end);
  base->set_rolled_back_end(state_.rolled_back_end);
  base->set_min_attempt(state_.min_attempt);
  v1::OpenClosures* run = nullptr;
  for (const auto& [id, closure] : open_) {
    const bool continues = run != nullptr && id == run->first_id() + run->count() &&
                           closure.place == run->first_place() + run->count() * run->steps() &&
                           closure.steps == run->steps();
    if (!continues) {
      run = base->add_open();
      run->set_first_id(id);
      run->set_first_place(closure.place);
      run->set_steps(closure.steps);
    }
    run->set_count(run->count() + 1);
  }
  base->set_next_place(state_.next_place);
  base->set_epoch(state_.epoch);
  base->set_next_cut(state_.next_cut);
  base->set_layout_hash(state_.layout_hash);
  base->set_finished(state_.finished);
  SettledMetricsToProto(state_.metrics, base->mutable_metrics());
  base->set_steps(state_.steps);
  if (state_.mode.has_value()) *base->mutable_mode() = *state_.mode;
  if (state_.rates.rates_size() > 0) *base->mutable_learning_rates() = state_.rates;
  if (state_.homes.has_value()) *base->mutable_homes() = *state_.homes;
  if (state_.joined.tasks_size() > 0) *base->mutable_joined() = state_.joined;
  base->mutable_history()->Add(state_.history.begin(), state_.history.end());
  state_.readers.Fill(base->mutable_readers());
  return record;
}

void JournalState::OnBase(const v1::JournalBase& base) {
  Recovered state;
  state.next_record = state_.next_record;
  state.counters = state_.counters;  // from the same record
  state.timeline = base.timeline();
  state.began_from = base.began_from();
  state.reserved_end = base.reserved_end();
  state.rolled_back_end = base.rolled_back_end();
  state.min_attempt = base.min_attempt();
  state.next_place = base.next_place();
  state.epoch = base.epoch();
  state.next_cut = base.next_cut();
  state.layout_hash = base.layout_hash();
  state.finished = base.finished();
  state.metrics = SettledMetricsFromProto(base.metrics());
  state.steps = base.steps();
  state.readers.Add(base.readers());
  if (base.has_mode()) state.mode = base.mode();
  state.rates = base.learning_rates();
  if (base.has_homes()) state.homes = base.homes();
  state.joined = base.joined();
  state.history.assign(base.history().begin(), base.history().end());
  state_ = std::move(state);
  generation_ = base.generation();
  missing_ = absl::OkStatus();
  open_.clear();
  by_place_.clear();
  for (const v1::OpenClosures& run : base.open()) {
    for (uint64_t i = 0; i < run.count(); ++i) {
      Open({.id = run.first_id() + i,
            .place = run.first_place() + i * run.steps(),
            .steps = run.steps()});
    }
  }
}

}  // namespace cohort
