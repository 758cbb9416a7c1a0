#include "common/tablet/tablet.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/status.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

template <typename Result>
void SetInvalid(const absl::Status& status, Result* result) {
  result->set_status(v1::INVALID);
  result->set_message(std::string(status.message()));
}

}  // namespace

TabletSnapshot::TabletSnapshot() : cut(std::make_unique<v1::TabletCut>()) {}
TabletSnapshot::TabletSnapshot(TabletSnapshot&&) noexcept = default;
TabletSnapshot::~TabletSnapshot() = default;

Tablet::~Tablet() = default;

absl::StatusOr<std::unique_ptr<Tablet>> Tablet::Create(const v1::Layout& layout,
                                                       std::shared_ptr<const LayoutRules> rules,
                                                       BufferPool* pool, const Options& options) {
  std::unique_ptr<Tablet> tablet(new Tablet(options, std::move(rules)));
  for (const v1::ShardSpec& spec : layout.shards()) {
    if (spec.tablet() != options.tablet) continue;
    COHORT_ASSIGN_OR_RETURN(std::unique_ptr<Shard> shard,
                            Shard::Create(layout, spec, *tablet->rules_, pool, options.shard));
    tablet->shards_.push_back(std::move(shard));
  }
  const auto number = [](const std::unique_ptr<Shard>& s) { return s->info().shard; };
  std::sort(tablet->shards_.begin(), tablet->shards_.end(),
            [&](const auto& a, const auto& b) { return number(a) < number(b); });
  for (size_t i = 1; i < tablet->shards_.size(); ++i) {
    if (number(tablet->shards_[i - 1]) == number(tablet->shards_[i])) {
      return InvalidArgument("layout: shard {} is there twice", number(tablet->shards_[i]));
    }
  }
  MutexLock lock(&tablet->mu_);
  tablet->marks_.assign(tablet->shards_.size(), 0);
  tablet->generation_ = options.generation;
  return tablet;
}

absl::Status Tablet::Initialize(const v1::Layout& layout) {
  MutexLock lock(&mu_);
  for (const v1::ShardSpec& spec : layout.shards()) {
    if (spec.tablet() != options_.tablet) continue;
    const v1::VariableSpec& variable = layout.variables(static_cast<int>(spec.variable()));
    COHORT_RETURN_IF_ERROR(Find(spec.shard())->Initialize(variable.initializer()));
  }
  return absl::OkStatus();
}

absl::Status Tablet::Fill(Filler fill) {
  MutexLock lock(&mu_);
  for (const auto& shard : shards_) {
    COHORT_RETURN_IF_ERROR(
        shard->Fill([&](int slot, int64_t row, int64_t rows, std::span<uint8_t> out) {
          return fill(shard->info(), slot, row, rows, out);
        }));
  }
  return absl::OkStatus();
}

absl::Status Tablet::Restore(const v1::AppliedSetProto& applied, uint64_t version) {
  MutexLock lock(&mu_);
  SetVersion(std::max(version, this->version()));
  return applied_.Merge(applied);
}

void Tablet::SetVersion(uint64_t version) {
  version_.store(version, std::memory_order_relaxed);
  if (options_.version_gauge != nullptr) {
    options_.version_gauge->Set(static_cast<double>(version));
  }
}

size_t Tablet::FindIndex(uint32_t number) const {
  const auto it = std::lower_bound(
      shards_.begin(), shards_.end(), number,
      [](const std::unique_ptr<Shard>& s, uint32_t n) { return s->info().shard < n; });
  if (it == shards_.end() || (*it)->info().shard != number) return shards_.size();
  return static_cast<size_t>(it - shards_.begin());
}

Shard* Tablet::Find(uint32_t number) const {
  const size_t index = FindIndex(number);
  return index < shards_.size() ? shards_[index].get() : nullptr;
}

template <typename Result>
bool Tablet::PassesFence(uint64_t generation, uint64_t term, bool reader, Result* result) {
  result->set_tablet(options_.tablet);
  result->set_timeline(options_.timeline);
  result->set_term(options_.term);
  result->set_version(version());
  if (retired_) {
    result->set_status(v1::MOVED);
    return false;
  }
  // A plain reader works for no chief and may not know the term.
  if (reader && generation == 0 && (term == 0 || term == options_.term)) return true;
  // If the chief of a push has not contacted this server yet, the worker repeats the push until it
  // has.
  const bool heard = reader ? generation >= generation_ : generation == generation_;
  if (heard && term == options_.term) return true;
  result->set_status(v1::FENCED);
  return false;
}

bool Tablet::IsNew(const PushHeaderView& header, v1::PushResult* result) {
  switch (applied_.Find(header.id)) {
    case AppliedSet::State::kSettled:
      result->set_status(v1::SETTLED);
      return false;
    case AppliedSet::State::kApplied: {
      result->set_status(v1::DUPLICATE);
      const auto attempt = applied_.AttemptOf(header.id);
      if (attempt.has_value()) result->set_applied_attempt(*attempt);
      return false;
    }
    case AppliedSet::State::kNew:
      return true;
  }
  return false;
}

absl::Status Tablet::CheckPush(const PushHeaderView& header, const PushSectionView& section) {
  if (header.closures_in_step > 1) {
    return Unimplemented("closures_in_step is {}: the synchronous mode is not implemented",
                         header.closures_in_step);
  }
  if (!std::isfinite(header.weight) || header.weight < 0) {
    return InvalidArgument("weight is {}; it is the divisor of a mean", header.weight);
  }
  COHORT_RETURN_IF_ERROR(applied_.Check(header.id));
  groups_.clear();
  ++mark_;
  const auto& entries = section.entries;
  for (size_t begin = 0, end = 0; begin < entries.size(); begin = end) {
    const uint32_t number = entries[begin].shard;
    while (end < entries.size() && entries[end].shard == number) ++end;
    const size_t index = FindIndex(number);
    if (index == shards_.size()) {
      return InvalidArgument("shard {} is not in tablet {}", number, options_.tablet);
    }
    if (std::exchange(marks_[index], mark_) == mark_) {
      return InvalidArgument("shard {}: its entries do not follow one another", number);
    }
    const Group group{shards_[index].get(), entries.subspan(begin, end - begin)};
    COHORT_RETURN_IF_ERROR(group.shard->CheckPush(group.entries));
    groups_.push_back(group);
  }
  return absl::OkStatus();
}

PushEffect Tablet::Push(uint64_t generation, uint64_t watermark, const PushHeaderView& header,
                        const PushSectionView& section, v1::PushResult* result) {
  PushEffect effect;
  MutexLock lock(&mu_);
  if (!PassesFence(generation, section.term, false, result)) return effect;
  if (header.timeline != options_.timeline) {
    result->set_status(v1::FENCED);
    return effect;
  }
  applied_.AdvanceWatermark(watermark);
  if (!IsNew(header, result)) return effect;
  if (const absl::Status check = CheckPush(header, section); !check.ok()) {
    SetInvalid(check, result);
    return effect;
  }
  // Nothing can fail from here on.
  applied_.Insert(header.id, header.attempt);
  const uint64_t step = header.place + header.id.ordinal;
  for (const Group& group : groups_) {
    if (group.shard->Apply(group.entries, header.weight, step, &scratch_)) effect.non_finite = true;
  }
  const uint64_t before = version();
  SetVersion(before + 1);
  effect.applied = true;
  effect.staleness = before - std::min(section.pulled_version, before);
  result->set_status(v1::APPLIED);
  result->set_version(before + 1);
  result->set_staleness(effect.staleness);
  return effect;
}

absl::Status Tablet::CheckPull(uint64_t version, const PullSectionView& section) {
  if (version != 0) {
    return Unimplemented("a pull of version {}: the synchronous mode is not implemented", version);
  }
  uint64_t bytes = 0;
  for (const PullEntryView& entry : section.entries) {
    const Shard* shard = Find(entry.shard);
    if (shard == nullptr) {
      return InvalidArgument("shard {} is not in tablet {}", entry.shard, options_.tablet);
    }
    COHORT_RETURN_IF_ERROR(shard->CheckPull(entry));
    bytes += shard->PulledBytes(entry);
    if (bytes > options_.max_pulled_bytes) {
      return ResourceExhausted("tablet {}: a pull of more than {} bytes", options_.tablet,
                               options_.max_pulled_bytes);
    }
  }
  return absl::OkStatus();
}

void Tablet::Pull(uint64_t generation, uint64_t version, const PullSectionView& section,
                  v1::PullResult* result, std::vector<PayloadSlice>* payload) {
  MutexLock lock(&mu_);
  if (!PassesFence(generation, section.term, true, result)) return;
  if (const absl::Status check = CheckPull(version, section); !check.ok()) {
    SetInvalid(check, result);
    return;
  }
  result->set_status(v1::APPLIED);
  for (const PullEntryView& entry : section.entries) {
    Find(entry.shard)->Pull(entry, result, payload);
  }
}

TabletSnapshot Tablet::Snapshot(uint64_t watermark) {
  TabletSnapshot snapshot;
  MutexLock lock(&mu_);
  applied_.AdvanceWatermark(watermark);
  snapshot.cut->set_tablet(options_.tablet);
  snapshot.cut->set_version(version());
  snapshot.cut->set_term(options_.term);
  applied_.ToProto(snapshot.cut->mutable_applied());
  if (options_.test_faults.snapshot_forgets_an_id && snapshot.cut->applied().applied_size() > 0) {
    snapshot.cut->mutable_applied()->mutable_applied()->RemoveLast();
  }
  for (const auto& shard : shards_) snapshot.shards.push_back(shard->Snapshot());
  return snapshot;
}

void Tablet::Fence(uint64_t generation) {
  MutexLock lock(&mu_);
  generation_ = std::max(generation_, generation);
}

void Tablet::Retire() {
  MutexLock lock(&mu_);
  retired_ = true;
}

uint64_t Tablet::copied_blocks() const {
  uint64_t copied = 0;
  for (const auto& shard : shards_) copied += shard->copied_blocks();
  return copied;
}

}  // namespace cohort
