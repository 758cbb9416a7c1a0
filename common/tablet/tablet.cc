#include "common/tablet/tablet.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/status.h"
#include "common/optimizers/device_copies.h"
#include "common/tablet/device_values.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

template <typename Result>
void SetInvalid(const absl::Status& status, Result* result) {
  result->set_status(v1::INVALID);
  result->set_message(std::string(status.message()));
}

// The divisor of the sum of what these members have pushed.
double WeightOf(const std::vector<StagedStep::Member>& members) {
  double weight = 0;
  for (const StagedStep::Member& member : members) weight += member.weight;
  return weight;
}

// `why`: nobody wants its values there if it is OK.
absl::Status NotOnDevice(uint32_t tablet, const absl::Status& why = absl::OkStatus()) {
  return FailedPrecondition("tablet {} has no values in the memory of a device{}{}", tablet,
                            why.ok() ? "" : ": ", std::string(why.message()));
}

}  // namespace

TabletSnapshot::TabletSnapshot() : cut(std::make_unique<v1::TabletCut>()) {}
TabletSnapshot::TabletSnapshot(TabletSnapshot&&) noexcept = default;
TabletSnapshot::~TabletSnapshot() = default;

Tablet::~Tablet() = default;

absl::StatusOr<std::unique_ptr<Tablet>> Tablet::Create(const v1::Layout& layout,
                                                       std::shared_ptr<const LayoutRules> rules,
                                                       BufferPool* pool, const Options& options) {
  std::vector<std::unique_ptr<Shard>> shards;
  for (const v1::ShardSpec& spec : layout.shards()) {
    if (spec.tablet() != options.tablet) continue;
    COHORT_ASSIGN_OR_RETURN(std::unique_ptr<Shard> shard,
                            Shard::Create(layout, spec, *rules, pool, options.shard));
    shards.push_back(std::move(shard));
  }
  const auto number = [](const std::unique_ptr<Shard>& s) { return s->info().shard; };
  std::sort(shards.begin(), shards.end(),
            [&](const auto& a, const auto& b) { return number(a) < number(b); });
  for (size_t i = 1; i < shards.size(); ++i) {
    if (number(shards[i - 1]) == number(shards[i])) {
      return InvalidArgument("layout: shard {} is there twice", number(shards[i]));
    }
  }
  std::map<std::string, const v1::VariableSpec*> variables;
  for (const v1::VariableSpec& variable : layout.variables()) {
    variables[variable.name()] = &variable;
  }
  std::vector<ShardClipping> clippings;
  for (const auto& shard : shards) {
    const v1::VariableSpec& variable = *variables.at(shard->info().variable);
    const GradientClipping clipping = rules->ClippingOf(variable);
    const bool one = clipping.kind == GradientClipping::Kind::kNorm;
    clippings.push_back({clipping, {variable.optimizer(), one ? variable.name() : ""}});
  }
  return std::unique_ptr<Tablet>(
      new Tablet(options, std::move(rules), std::move(shards), std::move(clippings)));
}

Tablet::Tablet(Options options, std::shared_ptr<const LayoutRules> rules,
               std::vector<std::unique_ptr<Shard>> shards, std::vector<ShardClipping> clippings)
    : options_(std::move(options)),
      rules_(std::move(rules)),
      shards_(std::move(shards)),
      clippings_(std::move(clippings)),
      traffic_(shards_),
      open_step_(std::max<uint64_t>(options_.open_step, 1)),
      term_(options_.term),
      generation_(options_.generation),
      values_(std::make_unique<BlockValues>(shards_, NotOnDevice(options_.tablet))),
      applied_(options_.limits),
      staged_(shards_.size(), options_.early_bytes),
      marks_(shards_.size(), 0) {}

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
    if (shard->info().is_table()) continue;
    COHORT_RETURN_IF_ERROR(
        shard->Fill([&](int slot, int64_t row, int64_t rows, std::span<uint8_t> out) {
          return fill(shard->info(), slot, row, rows, out);
        }));
  }
  return absl::OkStatus();
}

absl::Status Tablet::FillTables(TableReader read) {
  MutexLock lock(&mu_);
  for (const auto& shard : shards_) {
    if (!shard->info().is_table()) continue;
    COHORT_RETURN_IF_ERROR(read(
        shard->info(), [&](auto rows, auto tensors) { return shard->AddRows(rows, tensors); },
        [&](auto rows, auto tensors) { return shard->AddCounts(rows, tensors); }));
  }
  return absl::OkStatus();
}

absl::Status Tablet::Restore(const v1::AppliedSetProto& applied, uint64_t version) {
  MutexLock lock(&mu_);
  SetVersion(std::max(version, this->version()));
  return applied_.Merge(applied);
}

absl::Status Tablet::FillRows(uint32_t number, int slot, int64_t row_begin, int64_t rows,
                              std::span<const uint8_t> bytes) {
  MutexLock lock(&mu_);
  Shard* const shard = Find(number);
  if (shard == nullptr) return DataLoss("shard {} is not in tablet {}", number, options_.tablet);
  return shard->FillRows(slot, row_begin, rows, bytes);
}

absl::Status Tablet::FillTable(uint32_t number, bool counts, std::span<const int64_t> rows,
                               std::span<const std::span<const uint8_t>> tensors) {
  MutexLock lock(&mu_);
  Shard* const shard = Find(number);
  if (shard == nullptr || !shard->info().is_table()) {
    return DataLoss("shard {} is no table of tablet {}", number, options_.tablet);
  }
  return counts ? shard->AddCounts(rows, tensors) : shard->AddRows(rows, tensors);
}

void Tablet::SetClock(uint64_t clock) {
  MutexLock lock(&mu_);
  for (const auto& shard : shards_) shard->SetClock(clock);
}

void Tablet::BeginStep(uint64_t open_step, uint64_t step_try) {
  MutexLock lock(&mu_);
  open_step_.store(open_step, std::memory_order_release);
  staged_.Restart(step_try);
}

void Tablet::SetVersion(uint64_t version) {
  for (const auto& shard : shards_) shard->SetClock(version);
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
  result->set_term(this->term());
  result->set_version(version());
  if (retired_) {
    result->set_status(v1::MOVED);
    return false;
  }
  // A plain reader works for no chief and may not know the term.
  if (reader && generation == 0 && (term == 0 || term == this->term())) return true;
  // If the chief of a push has not contacted this server yet, the worker repeats the push until it
  // has.
  const bool heard = reader ? generation >= generation_ : generation == generation_;
  if (heard && term == this->term()) return true;
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
    const Shard& shard = *shards_[index];
    const StagedStep::Group group{index, &shard.info(), entries.subspan(begin, end - begin)};
    COHORT_RETURN_IF_ERROR(shard.CheckPush(group.entries));
    groups_.push_back(group);
  }
  for (const StagedStep::Group& group : groups_) {
    for (const PushEntryView& entry : group.entries) {
      if (entry.sparse) traffic_.Pushed(group.shard, entry.count);
    }
  }
  return absl::OkStatus();
}

PushEffect Tablet::Push(uint64_t generation, uint64_t watermark, const PushHeaderView& header,
                        const PushSectionView& section, v1::PushResult* result,
                        const DeviceParts* device) {
  PushEffect effect;
  MutexLock lock(&mu_);
  if (!PassesFence(generation, section.term, false, result)) return effect;
  if (header.timeline != options_.timeline) {
    result->set_status(v1::FENCED);
    return effect;
  }
  applied_.AdvanceWatermark(watermark);
  CountMoved(StagedStep::CopiedBytes(section.entries));
  if (header.step.sync()) {
    Stage(watermark, header, section, device, result);
    return effect;
  }
  if (!IsNew(header, result)) return effect;
  if (const absl::Status check = CheckPush(header, section); !check.ok()) {
    SetInvalid(check, result);
    return effect;
  }
  if (log_ != nullptr) log_->OnPush(watermark, header, section);
  if (const absl::Status applied = ApplyPush(header, device, &effect); !applied.ok()) {
    SetInvalid(applied, result);
    return effect;
  }
  applied_.Insert(header.id, header.attempt);
  const uint64_t before = version();
  SetVersion(before + 1);
  effect.applied = true;
  effect.staleness = before - std::min(section.pulled_version, before);
  result->set_status(v1::APPLIED);
  result->set_version(before + 1);
  result->set_staleness(effect.staleness);
  return effect;
}

// Nothing changes in the host's memory if there is an error.
absl::Status Tablet::ApplyPush(const PushHeaderView& header, const DeviceParts* device,
                               PushEffect* effect) {
  const uint64_t step =
      header.place + header.id.ordinal + static_cast<uint64_t>(header.iteration_offset);
  if (device != nullptr && device->update != nullptr) return values_->Update(*device, step);
  for (const StagedStep::Group& group : groups_) {
    const bool gradient = group.entries.front().kind == PushKind::kGradient;
    if (gradient && device != nullptr && device->gradients != nullptr) {
      return Unimplemented("a gradient on a device is for a synchronous step");
    }
    COHORT_RETURN_IF_ERROR(values_->ToHost(group.shard));
    COHORT_RETURN_IF_ERROR(shards_[group.shard]->TakeIn(group.entries));
  }
  for (const StagedStep::Group& group : groups_) {
    effect->non_finite |= values_->Apply(group.shard, group.entries, header.weight, step);
  }
  return absl::OkStatus();
}

absl::Status Tablet::Lose(absl::Status why) {
  values_->Lose(why);
  return why;
}

absl::Status Tablet::Reside(DeviceCopies copies) {
  MutexLock lock(&mu_);
  for (size_t i = 0; i < shards_.size(); ++i) COHORT_RETURN_IF_ERROR(values_->ToHost(i));
  values_ = std::make_unique<BlockValues>(shards_, NotOnDevice(options_.tablet));
  if (copies.readers.empty()) return absl::OkStatus();
  auto made = DeviceValues::Make(shards_, rules_, std::move(copies), options_.tablet);
  if (!made.ok()) {
    values_ = std::make_unique<BlockValues>(shards_, NotOnDevice(options_.tablet, made.status()));
    return made.status();
  }
  values_ = *std::move(made);
  return absl::OkStatus();
}

// A push of a closed step that a member made may be repeated, because its answer was lost.
void Tablet::Stage(uint64_t watermark, const PushHeaderView& header, const PushSectionView& section,
                   const DeviceParts* device, v1::PushResult* result) {
  const uint64_t open = open_step();
  const StepMembership& membership = header.step;
  if (membership.step < open && applied_.Find(header.id) != AppliedSet::State::kApplied) {
    result->set_status(v1::DROPPED);
    return;
  }
  if (!IsNew(header, result)) return;
  if (membership.step > open) {
    return SetInvalid(
        InvalidArgument("a push of step {}, but step {} is open", membership.step, open), result);
  }
  if (membership.step_try < staged_.step_try()) {
    result->set_status(v1::DROPPED);
    return;
  }
  const bool first = membership.step_try > staged_.step_try();
  if (first && options_.test_faults.new_try_applies_ids) {
    for (uint32_t i = 0; const StagedStep::Member* const member = staged_.Find(i); ++i) {
      applied_.Insert(member->id, member->attempt);
    }
  }
  if (first && !options_.test_faults.close_ignores_try) staged_.Restart(membership.step_try);
  const StagedStep::Member* const before = staged_.Find(membership.index);
  if (before != nullptr && before->id == header.id) {
    result->set_status(v1::STAGED);
    return;
  }
  absl::Status check = CheckPush(header, section);
  if (check.ok() && device != nullptr && device->update != nullptr) {
    check =
        Unimplemented("a synchronous step sums gradients: it takes no update that a step has left");
  }
  if (check.ok()) check = staged_.Check(header, groups_);
  if (!check.ok()) return SetInvalid(check, result);
  if (log_ != nullptr) log_->OnPush(watermark, header, section);
  Device* const gradients = device == nullptr ? nullptr : device->gradients;
  const absl::Status added = staged_.Add(header, groups_, gradients, values_->home());
  if (!added.ok()) {
    return SetInvalid(Lose(added), result);
  }
  result->set_status(v1::STAGED);
}

absl::Status Tablet::CheckClose(const CloseOrder& close) {
  const uint64_t open = open_step();
  if (retired_) return FailedPrecondition("tablet {} is not served any more", options_.tablet);
  if (close.step != open) {
    return FailedPrecondition("tablet {}: step {} cannot be closed while step {} is open",
                              options_.tablet, close.step, open);
  }
  if (close.step_try < staged_.step_try()) {
    return FailedPrecondition("tablet {}: step {} was abandoned", options_.tablet, close.step);
  }
  if (close.step_try > staged_.step_try()) staged_.Restart(close.step_try);
  return absl::OkStatus();
}

absl::Status Tablet::CheckNorms(const CloseOrder& close) const {
  for (size_t i = 0; i < shards_.size(); ++i) {
    const ShardClipping& clipping = clippings_[i];
    if (!clipping.clipping.by_norm() || close.norms.contains(clipping.key)) continue;
    if (!staged_.shard(i).has_gradient()) continue;
    return InvalidArgument("tablet {}: step {} is closed without the norm of '{}', optimizer {}",
                           options_.tablet, close.step,
                           clipping.key.variable.empty() ? "*" : clipping.key.variable,
                           clipping.key.optimizer);
  }
  return absl::OkStatus();
}

absl::Status Tablet::CheckSums(const CloseOrder& close) const {
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (!staged_.shard(i).lacks_sum()) continue;
    return InvalidArgument(
        "tablet {}: step {} is closed without the sum of shard {} ({}), which its owner's push "
        "brings",
        options_.tablet, close.step, shards_[i]->info().shard, shards_[i]->info().variable);
  }
  return absl::OkStatus();
}

absl::Status Tablet::AddSquares(const CloseOrder& close, SquareSums* squares) {
  MutexLock lock(&mu_);
  COHORT_RETURN_IF_ERROR(CheckClose(close));
  const auto members = staged_.Sum(close.members);
  if (!members.ok()) return Lose(members.status());
  const double weight = WeightOf(*members);
  COHORT_RETURN_IF_ERROR(CheckSums(close));
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (!clippings_[i].clipping.by_norm() || !staged_.shard(i).has_gradient()) continue;
    COHORT_RETURN_IF_ERROR(
        staged_.shard(i).AddSquares(shards_[i]->info(), weight, &(*squares)[clippings_[i].key]));
  }
  return absl::OkStatus();
}

absl::Status Tablet::Close(const CloseOrder& close, PushEffect* effect,
                           std::vector<StagedStep::Member>* applied) {
  MutexLock lock(&mu_);
  const uint64_t open = open_step();
  if (!retired_ && close.step < open) return absl::OkStatus();
  COHORT_RETURN_IF_ERROR(CheckClose(close));
  COHORT_RETURN_IF_ERROR(values_->status());
  auto members = staged_.Sum(close.members);
  if (!members.ok()) return Lose(members.status());
  *applied = *std::move(members);
  for (const StagedStep::Member& member : *applied) {
    COHORT_RETURN_IF_ERROR(applied_.Check(member.id));
  }
  if (!close.skip) {
    COHORT_RETURN_IF_ERROR(CheckSums(close));
    COHORT_RETURN_IF_ERROR(CheckNorms(close));
    for (size_t i = 0; i < shards_.size(); ++i) COHORT_RETURN_IF_ERROR(Join(i));
  }
  if (log_ != nullptr) log_->OnClose(close.step);
  // Nothing but a device or the disk of a table can fail from here on; then no value of this tablet
  // is read any more.
  for (const StagedStep::Member& member : *applied) applied_.Insert(member.id, member.attempt);
  const double weight = WeightOf(*applied);
  for (size_t i = 0; i < shards_.size() && !close.skip; ++i) {
    const absl::StatusOr<bool> non_finite = ApplySum(i, close, weight);
    if (!non_finite.ok()) return Lose(non_finite.status());
    effect->non_finite |= *non_finite;
  }
  effect->applied = !applied->empty();
  SetVersion(version() + (effect->applied ? 1 : 0));
  staged_.Restart(close.step_try);
  open_step_.store(open + 1, std::memory_order_release);
  return BeginNextLog();
}

absl::Status Tablet::Join(size_t shard) {
  if (!staged_.shard(shard).has_any()) return absl::OkStatus();
  if (clippings_[shard].clipping.kind == GradientClipping::Kind::kValue) {
    COHORT_RETURN_IF_ERROR(staged_.BringToHost(shard, shards_[shard]->info()));
  }
  return staged_.shard(shard).on_device() ? values_->ToHome(shard) : values_->ToHost(shard);
}

// The rule divides the sum by the weight, so a larger weight scales the gradient down.
absl::StatusOr<bool> Tablet::ApplySum(size_t shard, const CloseOrder& close, double weight) {
  const auto& [clipping, key] = clippings_[shard];
  const ShardInfo& info = shards_[shard]->info();
  const bool gradient = staged_.shard(shard).has_gradient();
  if (gradient && clipping.by_norm()) weight /= clipping.ScaleOf(close.norms.at(key));
  if (gradient && clipping.kind == GradientClipping::Kind::kValue) {
    staged_.Clip(shard, info, clipping.limit * weight);
  }
  if (staged_.shard(shard).on_device()) {
    COHORT_ASSIGN_OR_RETURN(const DeviceGradient sum, staged_.FinishOnDevice(shard));
    COHORT_RETURN_IF_ERROR(values_->ApplyAtHome(shard, sum, weight, close.iteration));
    return false;
  }
  const std::span<const PushEntryView> sum = staged_.Finish(shard, info);
  if (sum.empty()) return false;
  COHORT_RETURN_IF_ERROR(shards_[shard]->TakeIn(sum));
  return values_->Apply(shard, sum, weight, close.iteration);
}

void Tablet::Abandon(uint64_t step, uint64_t step_try) {
  MutexLock lock(&mu_);
  if (step != open_step() || step_try <= staged_.step_try()) return;
  if (log_ != nullptr) log_->OnAbandon(step, step_try);
  staged_.Restart(step_try);
  BeginNextLog().IgnoreError();  // the copy gets no state, and is lost
}

absl::Status Tablet::CheckPull(const PullSectionView& section) {
  uint64_t bytes = 0;
  for (const PullEntryView& entry : section.entries) {
    const Shard* shard = Find(entry.shard);
    if (shard == nullptr) {
      return InvalidArgument("shard {} is not in tablet {}", entry.shard, options_.tablet);
    }
    COHORT_RETURN_IF_ERROR(shard->CheckPull(entry));
    bytes += shard->PulledBytes(entry);
    const uint64_t once = std::min(bytes, this->bytes());
    if (bytes - once > options_.max_repeated_bytes) {
      return ResourceExhausted("tablet {}: a pull of more than {} bytes", options_.tablet,
                               once + options_.max_repeated_bytes);
    }
  }
  return absl::OkStatus();
}

void Tablet::Pull(uint64_t generation, uint64_t step, const PullSectionView& section,
                  v1::PullResult* result, std::vector<PayloadSlice>* payload,
                  const DeviceParts* device) {
  MutexLock lock(&mu_);
  if (!PassesFence(generation, section.term, true, result)) return;
  const uint64_t open = open_step();
  if (step != 0 && step != open && !(step > open && options_.test_faults.pull_ignores_step)) {
    result->set_status(step > open ? v1::LATER : v1::DROPPED);
    return;
  }
  absl::Status check = CheckPull(section);
  if (check.ok() && device != nullptr) check = values_->ToReader(*device);
  for (size_t i = 0; i < section.entries.size() && check.ok(); ++i) {
    check = values_->ToHost(FindIndex(section.entries[i].shard));
  }
  if (!check.ok()) return SetInvalid(check, result);
  result->set_status(v1::APPLIED);
  const size_t slices = payload->size();
  for (const PullEntryView& entry : section.entries) {
    const size_t index = FindIndex(entry.shard);
    const absl::Status pulled = shards_[index]->Pull(entry, result, payload);
    if (!pulled.ok()) {
      result->clear_entries();
      payload->erase(payload->begin() + static_cast<int64_t>(slices), payload->end());
      return SetInvalid(pulled, result);
    }
    if (entry.rows) traffic_.Pulled(index, KeysOf(entry.keys));
  }
  uint64_t bytes = 0;
  for (size_t i = slices; i < payload->size(); ++i) bytes += (*payload)[i].bytes;
  CountMoved(bytes);
}

void TabletSnapshot::TakeAverages() {
  for (ShardSnapshot& shard : shards) {
    const std::optional<size_t> average = SlotOfAverage(shard.info->slots);
    if (!average.has_value()) continue;
    for (ShardBlock& block : shard.blocks) block.values = block.slots[*average];
    shard.average = average;
  }
}

absl::StatusOr<TabletSnapshot> Tablet::Snapshot(uint64_t watermark,
                                                const SnapshotRequest& request) {
  MutexLock lock(&mu_);
  return TakeSnapshot(watermark, &request);
}

absl::StatusOr<TabletSnapshot> Tablet::TakeSnapshot(uint64_t watermark,
                                                    const SnapshotRequest* request) {
  TabletSnapshot snapshot;
  for (size_t i = 0; i < shards_.size(); ++i) {
    COHORT_RETURN_IF_ERROR(values_->ToHost(i));
    COHORT_RETURN_IF_ERROR(shards_[i]->status());
  }
  applied_.AdvanceWatermark(watermark);
  snapshot.cut->set_tablet(options_.tablet);
  snapshot.cut->set_version(version());
  snapshot.cut->set_term(term());
  applied_.ToProto(snapshot.cut->mutable_applied());
  if (options_.test_faults.snapshot_forgets_an_id && snapshot.cut->applied().applied_size() > 0) {
    snapshot.cut->mutable_applied()->mutable_applied()->RemoveLast();
  }
  if (options_.test_faults.snapshot_has_staged_ids) {
    for (uint32_t i = 0; const StagedStep::Member* const member = staged_.Find(i); ++i) {
      v1::UpdateId* const id = snapshot.cut->mutable_applied()->add_applied();
      id->set_closure(member->id.closure);
      id->set_ordinal(member->id.ordinal);
    }
  }
  for (const auto& shard : shards_) snapshot.shards.push_back(shard->Snapshot(request));
  return snapshot;
}

void Tablet::BeginTimeline(uint64_t timeline, uint64_t term, uint64_t generation,
                           uint64_t open_step) {
  MutexLock lock(&mu_);
  options_.timeline = timeline;
  options_.term = term;
  term_.store(term, std::memory_order_relaxed);
  generation_ = generation;
  open_step_.store(open_step, std::memory_order_release);
}

uint64_t Tablet::BytesToCopy(const PushSectionView& section) {
  MutexLock lock(&mu_);
  uint64_t bytes = 0;
  for (size_t i = 0; i < section.entries.size();) {
    size_t end = i + 1;
    while (end < section.entries.size() && section.entries[end].shard == section.entries[i].shard) {
      ++end;
    }
    const std::span<const PushEntryView> entries = section.entries.subspan(i, end - i);
    const Shard* const shard = Find(entries.front().shard);
    if (shard != nullptr && shard->CheckPush(entries).ok()) bytes += shard->BytesToCopy(entries);
    i = end;
  }
  return bytes;
}

uint64_t Tablet::BytesIfEarly(const PushHeaderView& header, const PushSectionView& section) {
  MutexLock lock(&mu_);
  const StepMembership& step = header.step;
  const bool waits = step.step == open_step() && step.step_try == staged_.step_try() &&
                     !step.partial && staged_.IsEarly(step.index);
  return waits ? StagedStep::CopiedBytes(section.entries) : 0;
}

void Tablet::AddFigures(v1::TaskFigures* figures) const {
  traffic_.AddTo(figures);
  v1::TabletFigures* const own = figures->add_tablets();
  own->set_tablet(options_.tablet);
  own->set_moved_bytes(moved_bytes_.load(std::memory_order_relaxed));
}

uint64_t Tablet::PulledBytes(const PullSectionView& section) const {
  uint64_t bytes = 0;
  for (const PullEntryView& entry : section.entries) {
    const Shard* const shard = Find(entry.shard);
    if (shard != nullptr) bytes += shard->PulledBytes(entry);
  }
  return bytes;
}

uint64_t Tablet::bytes() const {
  uint64_t bytes = 0;
  for (const auto& shard : shards_) bytes += shard->bytes();
  return bytes;
}

uint64_t Tablet::BytesToCopyAtClose() {
  MutexLock lock(&mu_);
  uint64_t bytes = 0;
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (staged_.shard(i).noted()) bytes += shards_[i]->BytesToCopy({});
  }
  return bytes;
}

uint64_t Tablet::superseded_bytes() const {
  if (mu_.TryLock()) {
    uint64_t bytes = 0;
    for (const auto& shard : shards_) bytes += shard->superseded_bytes();
    superseded_bytes_.store(bytes, std::memory_order_relaxed);
    mu_.Unlock();
  }
  return superseded_bytes_.load(std::memory_order_relaxed);
}

void Tablet::Reclaim() {
  MutexLock lock(&mu_);
  for (const auto& shard : shards_) shard->Reclaim();
}

absl::Status Tablet::BeginLog(std::shared_ptr<TabletLog> log, uint64_t watermark) {
  MutexLock lock(&mu_);
  if (log == log_ || log == next_log_) return absl::OkStatus();
  next_log_ = std::move(log);
  log_watermark_ = watermark;
  return BeginNextLog();
}

absl::Status Tablet::BeginNextLog() {
  if (next_log_ == nullptr || !staged_.empty()) return absl::OkStatus();
  COHORT_ASSIGN_OR_RETURN(TabletSnapshot state, TakeSnapshot(log_watermark_, nullptr));
  log_ = std::move(next_log_);
  log_->OnBegin(std::move(state), open_step(), staged_.step_try());
  return absl::OkStatus();
}

void Tablet::BeginTerm(uint64_t term, std::shared_ptr<TabletLog> log) {
  MutexLock lock(&mu_);
  term_.store(term, std::memory_order_relaxed);
  retired_ = false;
  log_ = std::move(log);
  next_log_ = nullptr;
}

uint64_t Tablet::generation() const {
  MutexLock lock(&mu_);
  return generation_;
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
