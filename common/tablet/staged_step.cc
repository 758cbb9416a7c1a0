#include "common/tablet/staged_step.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/tablet/value_reader.h"

namespace cohort {
namespace {

template <typename T>
void AddElements(const uint8_t* from, uint8_t* sum, size_t count) {
  const auto* in = reinterpret_cast<const T*>(from);
  auto* out = reinterpret_cast<T*>(sum);
  for (size_t i = 0; i < count; ++i) out[i] += in[i];
}

void AddValues(DType dtype, const uint8_t* from, uint8_t* sum, size_t bytes) {
  if (dtype == DType::kFloat32) {
    AddElements<float>(from, sum, bytes / sizeof(float));
  } else {
    AddElements<double>(from, sum, bytes / sizeof(double));
  }
}

template <typename T>
void Divide(uint8_t* values, size_t count, uint32_t divisor) {
  auto* out = reinterpret_cast<T*>(values);
  for (size_t i = 0; i < count; ++i) out[i] /= static_cast<T>(divisor);
}

template <typename T>
void AddSquaresOf(const uint8_t* values, size_t bytes, double scale, ExactSum* squares) {
  const auto* in = reinterpret_cast<const T*>(values);
  for (size_t i = 0; i < bytes / sizeof(T); ++i) {
    const double mean = static_cast<double>(in[i]) * scale;
    squares->Add(mean * mean);
  }
}

template <typename T>
void ClipElements(T most, uint8_t* values, size_t bytes) {
  auto* out = reinterpret_cast<T*>(values);
  for (size_t i = 0; i < bytes / sizeof(T); ++i) out[i] = std::clamp(out[i], -most, most);
}

// Calls visit(pointer to values, byte offset within the entry, bytes) for all values of a dense
// entry.
template <typename Visit>
void ForEachRun(const PushEntryView& entry, size_t element, const Visit& visit) {
  uint8_t scratch[sizeof(double)];
  ValueReader reader(entry);
  const size_t bytes = entry.value_bytes();
  for (size_t done = 0; done < bytes;) {
    const auto run = reader.Read(done, bytes - done, element, scratch);
    visit(run.data(), done, run.size());
    done += run.size();
  }
}

size_t Words(size_t bytes) { return (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t); }

uint8_t* BytesOf(std::vector<uint64_t>* words) { return reinterpret_cast<uint8_t*>(words->data()); }

bool SameElements(const PushEntryView& a, const PushEntryView& b) {
  return a.begin == b.begin && a.count == b.count && a.momentum == b.momentum &&
         std::equal(a.keys.begin(), a.keys.end(), b.keys.begin(), b.keys.end());
}

bool IsRecord(std::span<const PushEntryView> entries) {
  return entries.front().kind == PushKind::kRecordOnly;
}

bool OnlyDenseGradients(std::span<const StagedStep::Group> groups) {
  return std::ranges::all_of(groups, [](const StagedStep::Group& group) {
    return std::ranges::all_of(group.entries, [](const PushEntryView& entry) {
      return entry.kind == PushKind::kGradient && !entry.sparse;
    });
  });
}

// Copies keys and values to `to` and makes the view point there. Returns the words that it took.
size_t CopyTo(PushEntryView* entry, size_t element, uint64_t* to) {
  auto* const keys = reinterpret_cast<uint8_t*>(to);
  if (!entry->keys.empty()) std::memcpy(keys, entry->keys.data(), entry->keys.size());
  const size_t key_words = Words(entry->keys.size());
  auto* const values = reinterpret_cast<uint8_t*>(to + key_words);
  const size_t bytes = entry->value_bytes();
  ForEachRun(*entry, element, [&](const uint8_t* from, size_t offset, size_t size) {
    std::memcpy(values + offset, from, size);
  });
  entry->keys = {keys, entry->keys.size()};
  entry->values = {values, bytes};
  entry->pieces = {};
  return key_words + Words(bytes);
}

}  // namespace

// ------------------------------------------------------------------ one shard

absl::Status StagedShard::Check(const ShardInfo& info,
                                std::span<const PushEntryView> entries) const {
  if (IsRecord(entries) || !noted_) return absl::OkStatus();
  if (entries.front().kind == kind_ && entries.front().sparse == sparse_) return absl::OkStatus();
  return InvalidArgument("shard {} ({}): another closure of the step pushed another kind",
                         info.shard, info.variable);
}

void StagedShard::Note(std::span<const PushEntryView> entries) {
  summed_elsewhere_ = summed_elsewhere_ || entries.front().summed_elsewhere;
  if (IsRecord(entries)) return;
  noted_ = true;
  kind_ = entries.front().kind;
  sparse_ = entries.front().sparse;
}

void StagedShard::Add(const ShardInfo& info, std::span<const PushEntryView> entries) {
  if (IsRecord(entries)) return;
  if (kind_ != PushKind::kGradient) {
    AddCopies(info, entries);
  } else if (!sparse_) {
    AddDense(info, entries);
  } else {
    for (const PushEntryView& entry : entries) AddRows(info, entry);
  }
  ++members_;
}

void StagedShard::AddDense(const ShardInfo& info, std::span<const PushEntryView> parts) {
  const size_t element = SizeOf(info.dtype);
  sum_bytes_ = static_cast<size_t>(info.elements()) * element;
  sums_.resize(Words(sum_bytes_));
  uint8_t* const sums = BytesOf(&sums_);
  for (const PushEntryView& part : parts) {
    ForEachRun(part, element, [&](const uint8_t* from, size_t offset, size_t size) {
      uint8_t* const to = sums + part.begin * element + offset;
      if (members_ == 0) {
        std::memcpy(to, from, size);
      } else {
        AddValues(info.dtype, from, to, size);
      }
    });
  }
}

void StagedShard::AddRows(const ShardInfo& info, const PushEntryView& entry) {
  const auto* keys = reinterpret_cast<const int64_t*>(entry.keys.data());
  const size_t row_bytes = info.row_bytes();
  for (uint64_t i = 0; i < entry.count; ++i) {
    const uint8_t* const row = entry.values.data() + i * row_bytes;
    const auto [found, fresh] = rows_.try_emplace(keys[i], keys_.size());
    if (fresh) {
      keys_.push_back(keys[i]);
      sum_bytes_ += row_bytes;
      if (sums_.size() < Words(sum_bytes_))
        sums_.resize(std::max(Words(sum_bytes_), 2 * sums_.size()));
      std::memcpy(BytesOf(&sums_) + found->second * row_bytes, row, row_bytes);
    } else {
      AddValues(info.dtype, row, BytesOf(&sums_) + found->second * row_bytes, row_bytes);
    }
  }
}

void StagedShard::AddCopies(const ShardInfo& info, std::span<const PushEntryView> entries) {
  const bool averaged = kind_ == PushKind::kEma && members_ > 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (averaged && i < copies_.size() && SameElements(entries[i], copies_[i].entry)) {
      auto* const sum = const_cast<uint8_t*>(copies_[i].entry.values.data());
      ForEachRun(entries[i], SizeOf(info.dtype),
                 [&](const uint8_t* from, size_t offset, size_t size) {
                   AddValues(info.dtype, from, sum + offset, size);
                 });
      continue;
    }
    Copy copy{.entry = entries[i], .memory = {}};
    copy.memory.resize(Words(entries[i].keys.size()) + Words(entries[i].value_bytes()));
    CopyTo(&copy.entry, SizeOf(info.dtype), copy.memory.data());
    copies_.push_back(std::move(copy));
  }
}

void StagedShard::AddSquares(const ShardInfo& info, double weight, ExactSum* squares) const {
  if (!has_gradient() || weight == 0) return;
  const auto* const values = reinterpret_cast<const uint8_t*>(sums_.data());
  if (info.dtype == DType::kFloat32) {
    AddSquaresOf<float>(values, sum_bytes_, 1 / weight, squares);
  } else {
    AddSquaresOf<double>(values, sum_bytes_, 1 / weight, squares);
  }
}

void StagedShard::Clip(const ShardInfo& info, double most) {
  if (!has_gradient()) return;
  if (info.dtype == DType::kFloat32) {
    ClipElements<float>(static_cast<float>(most), BytesOf(&sums_), sum_bytes_);
  } else {
    ClipElements<double>(most, BytesOf(&sums_), sum_bytes_);
  }
}

std::span<const PushEntryView> StagedShard::Finish(const ShardInfo& info) {
  finished_.clear();
  if (members_ == 0) return finished_;
  if (kind_ == PushKind::kGradient) {
    PushEntryView sum;
    sum.shard = info.shard;
    sum.kind = kind_;
    sum.sparse = sparse_;
    sum.count = sparse_ ? keys_.size() : static_cast<uint64_t>(info.elements());
    if (sparse_) {
      sum.keys = {reinterpret_cast<const uint8_t*>(keys_.data()), keys_.size() * sizeof(int64_t)};
    }
    sum.values = {BytesOf(&sums_), sum_bytes_};
    finished_.push_back(sum);
    return finished_;
  }
  for (Copy& copy : copies_) {
    if (kind_ == PushKind::kEma && members_ > 1) {
      auto* const values = const_cast<uint8_t*>(copy.entry.values.data());
      const size_t count = copy.entry.values.size() / SizeOf(info.dtype);
      if (info.dtype == DType::kFloat32) {
        Divide<float>(values, count, members_);
      } else {
        Divide<double>(values, count, members_);
      }
    }
    finished_.push_back(copy.entry);
  }
  return finished_;
}

void StagedShard::Clear() {
  noted_ = false;
  summed_elsewhere_ = false;
  sum_bytes_ = 0;
  keys_.clear();
  rows_.clear();
  copies_.clear();
  members_ = 0;
  finished_.clear();
}

// ------------------------------------------------------------------ a step

void StagedStep::Restart(uint64_t step_try) {
  step_try_ = step_try;
  next_ = 0;
  members_.clear();
  early_.clear();
  second_came_first_ = false;
  for (StagedShard& shard : shards_) shard.Clear();
}

const StagedStep::Member* StagedStep::Find(uint32_t index) const {
  return index < members_.size() && members_[index].staged ? &members_[index] : nullptr;
}

absl::Status StagedStep::Check(const PushHeaderView& header, std::span<const Group> groups) const {
  if (header.step.index >= kMaxMembers) {
    return InvalidArgument("closure {} has index {} in its step, which has at most {} closures",
                           header.id.closure, header.step.index, kMaxMembers);
  }
  if (const Member* const other = Find(header.step.index); other != nullptr) {
    return InvalidArgument("closures {} and {} both have index {} in step {}", other->id.closure,
                           header.id.closure, header.step.index, header.step.step);
  }
  for (const Group& group : groups) {
    COHORT_RETURN_IF_ERROR(shards_[group.shard].Check(*group.info, group.entries));
  }
  return absl::OkStatus();
}

void StagedStep::Add(const PushHeaderView& header, std::span<const Group> groups) {
  const uint32_t index = header.step.index;
  if (members_.size() <= index) members_.resize(index + 1);
  members_[index] = {.staged = true,
                     .id = header.id,
                     .attempt = header.attempt,
                     .place = header.place,
                     .weight = header.weight};
  for (const Group& group : groups) shards_[group.shard].Note(group.entries);
  const bool is_second = index == 1 && next_ == 0 && OnlyDenseGradients(groups);
  if (header.step.partial || (index != next_ && !is_second)) {
    early_.emplace(index, CopyOf(groups));
    return;
  }
  for (const Group& group : groups) shards_[group.shard].Add(*group.info, group.entries);
  if (index != next_) {
    second_came_first_ = true;
    return;
  }
  do {
    ++next_;
  } while (AddEarly(next_) || (next_ == 1 && second_came_first_));
}

StagedStep::Early StagedStep::CopyOf(std::span<const Group> groups) {
  size_t words = 0;
  for (const Group& group : groups) {
    for (const PushEntryView& entry : group.entries) {
      words += Words(entry.keys.size()) + Words(entry.value_bytes());
    }
  }
  Early early;
  early.memory = std::make_unique_for_overwrite<uint64_t[]>(words);
  uint64_t* to = early.memory.get();
  for (const Group& group : groups) {
    Early::Part part{.shard = group.shard,
                     .info = group.info,
                     .entries = {group.entries.begin(), group.entries.end()}};
    for (PushEntryView& entry : part.entries) to += CopyTo(&entry, SizeOf(group.info->dtype), to);
    early.parts.push_back(std::move(part));
  }
  return early;
}

bool StagedStep::AddEarly(uint32_t index) {
  const auto found = early_.find(index);
  if (found == early_.end()) return false;
  for (const Early::Part& part : found->second.parts) {
    shards_[part.shard].Add(*part.info, part.entries);
  }
  early_.erase(found);
  return true;
}

std::vector<StagedStep::Member> StagedStep::Sum(std::span<const uint32_t> indices) {
  std::vector<Member> members;
  for (const uint32_t index : indices) {
    const Member* const member = Find(index);
    if (member == nullptr) continue;
    (void)AddEarly(index);
    members.push_back(*member);
  }
  return members;
}

}  // namespace cohort
