#include "chief/core/recovery.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/base/status.h"

namespace cohort {
namespace {

// The walk over the records.
class Replay {
 public:
  explicit Replay(const ManifestReader& read_manifest) : read_manifest_(read_manifest) {}

  absl::Status Apply(const v1::JournalRecord& record);
  absl::StatusOr<Recovered> Finish(const std::string& newest);

 private:
  void OnReserve(const v1::ReserveClosures& block);
  void OnSettle(const v1::Settle& settle);
  absl::Status OnRollback(const v1::Rollback& rollback);
  absl::Status OnCut(const v1::CutCommitted& cut);
  void OpenPending(const v1::ChiefCut& cut);

  const ManifestReader& read_manifest_;
  Recovered state_;
  uint64_t generation_ = 0;                     // of the life that wrote the record
  std::map<uint64_t, UnfinishedClosure> open_;  // by id
  std::map<uint64_t, uint64_t> by_place_;       // place -> id, of open_
  absl::Status missing_;                        // the manifest of the last rollback is gone
  std::set<uint64_t> settled_;                  // while it is missing: ids that were settled since,
  uint64_t settled_below_ = 0;                  // and those below the watermark,
  uint64_t settle_record_ = 0;                  // by records up to this one
};

void Replay::OnReserve(const v1::ReserveClosures& block) {
  state_.reserved_end = std::max(state_.reserved_end, block.first_id() + block.count());
  if (!block.by_job() || block.timeline() != state_.timeline || block.steps() == 0) return;
  for (uint64_t i = 0; i < block.count(); ++i) {
    const uint64_t place = block.first_place() + i * block.steps();
    if (place >= block.max_places()) break;
    const uint64_t steps = std::min<uint64_t>(block.steps(), block.max_places() - place);
    // A block that was opened later for a place replaces what an earlier one left unused of it.
    const auto older = by_place_.find(place);
    if (older != by_place_.end()) open_.erase(older->second);
    const uint64_t id = block.first_id() + i;
    open_[id] = {.id = id, .place = place, .steps = static_cast<uint32_t>(steps)};
    by_place_[place] = id;
    state_.next_place = std::max(state_.next_place, place + steps);
  }
}

void Replay::OnSettle(const v1::Settle& settle) {
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
  state_.metrics = MetricsFromProto(settle.metrics());
  state_.steps = settle.step();
  state_.readers.Add(settle.readers());
}

absl::Status Replay::OnRollback(const v1::Rollback& rollback) {
  if (rollback.timeline() <= state_.timeline) {
    return DataLoss("the journal rolls back to timeline {} after timeline {}", rollback.timeline(),
                    state_.timeline);
  }
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
  if (rollback.manifest().empty()) return absl::OkStatus();
  const absl::StatusOr<v1::Manifest> manifest = read_manifest_(rollback.manifest());
  if (absl::IsNotFound(manifest.status())) {
    missing_ = manifest.status();
    return absl::OkStatus();
  }
  COHORT_RETURN_IF_ERROR(manifest.status());
  state_.metrics = MetricsFromProto(manifest->chief().metrics());
  state_.epoch = manifest->epoch();
  state_.next_place = manifest->chief().next_place();
  state_.steps = FinishedSteps(manifest->chief());
  state_.readers.Add(manifest->chief().readers());
  OpenPending(manifest->chief());
  return absl::OkStatus();
}

void Replay::OpenPending(const v1::ChiefCut& cut) {
  for (const v1::PendingClosure& pending : cut.pending()) {
    if (pending.id() < settled_below_ || settled_.contains(pending.id())) continue;
    open_[pending.id()] = {.id = pending.id(), .place = pending.place(), .steps = pending.steps()};
    by_place_[pending.place()] = pending.id();
  }
}

// If the rollback's manifest is gone, that of a later cut names the pending closures.
absl::Status Replay::OnCut(const v1::CutCommitted& cut) {
  state_.next_cut = std::max(state_.next_cut, cut.cut() + 1);
  if (missing_.ok() || cut.timeline() != state_.timeline) return absl::OkStatus();
  const absl::StatusOr<v1::Manifest> manifest = read_manifest_(cut.manifest());
  if (absl::IsNotFound(manifest.status())) return absl::OkStatus();
  COHORT_RETURN_IF_ERROR(manifest.status());
  if (manifest->timeline() != state_.timeline) return absl::OkStatus();
  const v1::ChiefCut& chief = manifest->chief();
  // What the cut has folded counts, unless a later record has more.
  if (settle_record_ <= chief.journal_record() && manifest->epoch() >= state_.epoch) {
    v1::Settle settle;
    settle.set_watermark(chief.settled_watermark());
    *settle.mutable_finished() = chief.finished();
    *settle.mutable_metrics() = chief.metrics();
    settle.set_step(FinishedSteps(chief));
    OnSettle(settle);
  }
  OpenPending(chief);
  state_.readers.Add(chief.readers());
  state_.next_place = std::max(state_.next_place, manifest->chief().next_place());
  state_.epoch = std::max(state_.epoch, manifest->epoch());
  missing_ = absl::OkStatus();
  return absl::OkStatus();
}

absl::Status Replay::Apply(const v1::JournalRecord& record) {
  if (record.number() < state_.next_record) {
    return DataLoss("the journal's record {} comes after record {}", record.number(),
                    state_.next_record - 1);
  }
  state_.next_record = record.number() + 1;
  switch (record.body_case()) {
    case v1::JournalRecord::kStart:
      // Otherwise the records before it have the timeline.
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
      state_.layout_hash = record.rollback().layout_hash();
      return OnRollback(record.rollback());
    case v1::JournalRecord::kCut:
      return OnCut(record.cut());
    case v1::JournalRecord::kEpoch:
      state_.epoch = record.epoch().epoch() + 1;
      state_.metrics.clear();
      break;
    case v1::JournalRecord::kFinished:
      state_.finished = true;
      break;
    case v1::JournalRecord::BODY_NOT_SET:
      return DataLoss("the journal's record {} is of an unknown kind", record.number());
  }
  return absl::OkStatus();
}

absl::StatusOr<Recovered> Replay::Finish(const std::string& newest) {
  if (!missing_.ok() && !newest.empty()) {
    v1::CutCommitted cut;
    cut.set_timeline(state_.timeline);
    cut.set_manifest(newest);
    const uint64_t next_cut = state_.next_cut;
    COHORT_RETURN_IF_ERROR(OnCut(cut));
    state_.next_cut = next_cut;
  }
  if (!missing_.ok()) return missing_;
  for (const auto& [id, closure] : open_) state_.unfinished.push_back(closure);
  state_.watermark = open_.empty() ? state_.reserved_end : open_.begin()->first;
  return std::move(state_);
}

}  // namespace

absl::StatusOr<Recovered> Recover(std::span<const v1::JournalRecord> records,
                                  const ManifestReader& read_manifest, const std::string& newest) {
  Replay replay(read_manifest);
  for (const v1::JournalRecord& record : records) {
    COHORT_RETURN_IF_ERROR(replay.Apply(record));
  }
  return replay.Finish(newest);
}

Recovered RecoverFromManifest(const v1::Manifest& manifest) {
  Recovered state;
  state.from_manifest = true;
  state.timeline = manifest.timeline();
  state.next_record = manifest.chief().journal_record() + 1;
  state.reserved_end = std::max<uint64_t>(1, manifest.chief().next_closure());
  state.watermark = state.rolled_back_end = state.reserved_end;
  state.next_place = state.steps = manifest.step();
  state.epoch = manifest.epoch();
  state.next_cut = manifest.cut() + 1;
  state.finished = manifest.finished();
  state.readers.Add(manifest.chief().readers());
  return state;
}

}  // namespace cohort
