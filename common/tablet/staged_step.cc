#include "common/tablet/staged_step.h"

#include <algorithm>
#include <cstring>
#include <numeric>
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

// Copies values that are in the memory of a device, unless it is null, to `memory`.
absl::Status DownloadValues(Device* from, PushEntryView* entry, std::vector<uint8_t>* memory) {
  if (from == nullptr) return absl::OkStatus();
  memory->resize(entry->values.size());
  COHORT_RETURN_IF_ERROR(from->CopyToHost(memory->data(), entry->values.data(), memory->size()));
  entry->values = *memory;
  return absl::OkStatus();
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

absl::Status StagedShard::Add(const ShardInfo& info, std::span<const PushEntryView> entries,
                              Device* from, const std::shared_ptr<Device>& home) {
  if (IsRecord(entries)) return absl::OkStatus();
  if (kind_ != PushKind::kGradient) {
    AddCopies(info, entries);
    ++members_;
    return absl::OkStatus();
  }
  if (members_ == 0) on_device_ = home != nullptr && from != nullptr;
  if (on_device_ && sparse_ && device_rows_ == nullptr) {
    device_rows_ = std::make_unique<DeviceRowSum>(home, &info);
  }
  if (!sparse_) COHORT_RETURN_IF_ERROR(AddDense(info, entries, from, home));
  for (size_t i = 0; i < entries.size() && sparse_; ++i) {
    COHORT_RETURN_IF_ERROR(on_device_ ? AddRowsOnDevice(entries[i])
                                      : AddRows(info, entries[i], from));
  }
  ++members_;
  return absl::OkStatus();
}

absl::Status StagedShard::AddDense(const ShardInfo& info, std::span<const PushEntryView> parts,
                                   Device* from, const std::shared_ptr<Device>& home) {
  if (on_device_) {
    if (device_sum_ == nullptr) {
      COHORT_ASSIGN_OR_RETURN(device_sum_, DeviceSum::Make(home, info));
    }
    return device_sum_->Add(parts, /*first=*/members_ == 0);
  }
  const size_t element = SizeOf(info.dtype);
  sum_bytes_ = static_cast<size_t>(info.elements()) * element;
  sums_.resize(Words(sum_bytes_));
  uint8_t* const sums = BytesOf(&sums_);
  std::vector<uint8_t> memory;
  for (PushEntryView part : parts) {
    COHORT_RETURN_IF_ERROR(DownloadValues(from, &part, &memory));
    ForEachRun(part, element, [&](const uint8_t* from, size_t offset, size_t size) {
      uint8_t* const to = sums + part.begin * element + offset;
      if (members_ == 0) {
        std::memcpy(to, from, size);
      } else {
        AddValues(info.dtype, from, to, size);
      }
    });
  }
  return absl::OkStatus();
}

absl::StatusOr<DeviceGradient> StagedShard::FinishOnDevice() {
  if (!sparse_) return device_sum_->gradient();
  std::vector<int64_t> places(keys_.size());
  std::iota(places.begin(), places.end(), 0);
  const auto key_at = [this](int64_t place) { return keys_[static_cast<size_t>(place)]; };
  std::ranges::sort(places, {}, key_at);
  std::vector<int64_t> keys(keys_.size());
  std::ranges::transform(places, keys.begin(), key_at);
  return device_rows_->Sort(places, keys);
}

size_t StagedShard::BytesOfSum(const ShardInfo& info) const {
  return sparse_ ? keys_.size() * info.row_bytes()
                 : static_cast<size_t>(info.elements()) * SizeOf(info.dtype);
}

absl::Status StagedShard::Download(std::span<uint8_t> to) const {
  return sparse_ ? device_rows_->Download(to) : device_sum_->Download(to);
}

absl::Status StagedShard::BringToHost(const ShardInfo& info) {
  if (!on_device_) return absl::OkStatus();
  sum_bytes_ = BytesOfSum(info);
  sums_.resize(Words(sum_bytes_));
  COHORT_RETURN_IF_ERROR(Download({BytesOf(&sums_), sum_bytes_}));
  on_device_ = false;
  return absl::OkStatus();
}

absl::Status StagedShard::AddRowsOnDevice(const PushEntryView& entry) {
  const std::span<const int64_t> keys(reinterpret_cast<const int64_t*>(entry.keys.data()),
                                      entry.count);
  std::vector<int64_t> places;
  for (const int64_t key : keys) {
    const auto [found, fresh] = rows_.try_emplace(key, keys_.size());
    if (fresh) keys_.push_back(key);
    places.push_back(static_cast<int64_t>(found->second));
  }
  return device_rows_->Add(entry.values.data(), places, keys_.size());
}

absl::Status StagedShard::AddRows(const ShardInfo& info, const PushEntryView& given, Device* from) {
  PushEntryView entry = given;
  std::vector<uint8_t> memory;
  COHORT_RETURN_IF_ERROR(DownloadValues(from, &entry, &memory));
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
  return absl::OkStatus();
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

absl::Status StagedShard::AddSquares(const ShardInfo& info, double weight,
                                     ExactSum* squares) const {
  if (!has_gradient() || weight == 0) return absl::OkStatus();
  std::vector<uint64_t> downloaded;
  size_t bytes = sum_bytes_;
  if (on_device_) {
    bytes = BytesOfSum(info);
    downloaded.resize(Words(bytes));
    COHORT_RETURN_IF_ERROR(Download({BytesOf(&downloaded), bytes}));
  }
  const auto* const values =
      reinterpret_cast<const uint8_t*>((on_device_ ? downloaded : sums_).data());
  if (info.dtype == DType::kFloat32) {
    AddSquaresOf<float>(values, bytes, 1 / weight, squares);
  } else {
    AddSquaresOf<double>(values, bytes, 1 / weight, squares);
  }
  return absl::OkStatus();
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
  on_device_ = false;
  sum_bytes_ = 0;
  keys_.clear();
  rows_.clear();
  if (device_rows_ != nullptr) device_rows_->Clear();
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
  SetEarlyBytes(0);
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

absl::Status StagedStep::Add(const PushHeaderView& header, std::span<const Group> groups,
                             Device* from, const std::shared_ptr<Device>& home) {
  const uint32_t index = header.step.index;
  const bool is_second = index == 1 && next_ == 0 && OnlyDenseGradients(groups);
  const bool waits = header.step.partial || (index != next_ && !is_second);
  Early early;
  if (waits) {
    COHORT_ASSIGN_OR_RETURN(early, CopyOf(groups, from, home));
  }
  if (members_.size() <= index) members_.resize(index + 1);
  members_[index] = {.staged = true,
                     .id = header.id,
                     .attempt = header.attempt,
                     .place = header.place,
                     .weight = header.weight};
  for (const Group& group : groups) shards_[group.shard].Note(group.entries);
  if (waits) {
    SetEarlyBytes(early_bytes_ + early.bytes);
    early_.emplace(index, std::move(early));
    return absl::OkStatus();
  }
  for (const Group& group : groups) {
    COHORT_RETURN_IF_ERROR(shards_[group.shard].Add(*group.info, group.entries, from, home));
  }
  if (index != next_) {
    second_came_first_ = true;
    return absl::OkStatus();
  }
  bool added = true;
  while (added) {
    ++next_;
    COHORT_ASSIGN_OR_RETURN(added, AddEarly(next_));
    added = added || (next_ == 1 && second_came_first_);
  }
  return absl::OkStatus();
}

uint64_t StagedStep::CopiedBytes(std::span<const PushEntryView> entries) {
  uint64_t bytes = 0;
  for (const PushEntryView& entry : entries) {
    bytes += (Words(entry.keys.size()) + Words(entry.value_bytes())) * sizeof(uint64_t);
  }
  return bytes;
}

absl::StatusOr<StagedStep::Early> StagedStep::CopyOf(std::span<const Group> groups, Device* from,
                                                     const std::shared_ptr<Device>& home) {
  Early early;
  if (from != nullptr) early.home = home;
  const auto goes_home = [&early](const PushEntryView& entry) {
    return early.home != nullptr && entry.kind == PushKind::kGradient;
  };
  size_t words = 0;
  for (const Group& group : groups) {
    for (const PushEntryView& entry : group.entries) {
      words += Words(entry.keys.size()) + (goes_home(entry) ? 0 : Words(entry.value_bytes()));
    }
  }
  early.memory = std::make_unique_for_overwrite<uint64_t[]>(words);
  early.bytes = words * sizeof(uint64_t);
  uint64_t* to = early.memory.get();
  for (const Group& group : groups) {
    Early::Part part{.shard = group.shard,
                     .info = group.info,
                     .entries = {group.entries.begin(), group.entries.end()}};
    for (PushEntryView& entry : part.entries) {
      std::vector<uint8_t> downloaded;
      if (goes_home(entry)) {
        const std::span<const uint8_t> values = std::exchange(entry.values, {});
        COHORT_ASSIGN_OR_RETURN(DeviceMemory memory,
                                home->Allocate(values.size(), "a gradient that came early"));
        COHORT_RETURN_IF_ERROR(home->CopyToDevice(memory.data(), values.data(), values.size()));
        to += CopyTo(&entry, SizeOf(group.info->dtype), to);
        entry.values = {memory.data(), values.size()};
        early.device_memory.push_back(std::move(memory));
        continue;
      }
      if (entry.kind == PushKind::kGradient) {
        COHORT_RETURN_IF_ERROR(DownloadValues(from, &entry, &downloaded));
      }
      to += CopyTo(&entry, SizeOf(group.info->dtype), to);
    }
    early.parts.push_back(std::move(part));
  }
  return early;
}

absl::StatusOr<bool> StagedStep::AddEarly(uint32_t index) {
  const auto found = early_.find(index);
  if (found == early_.end()) return false;
  for (const Early::Part& part : found->second.parts) {
    COHORT_RETURN_IF_ERROR(shards_[part.shard].Add(*part.info, part.entries,
                                                   found->second.home.get(), found->second.home));
  }
  SetEarlyBytes(early_bytes_ - found->second.bytes);
  early_.erase(found);
  return true;
}

void StagedStep::SetEarlyBytes(uint64_t bytes) {
  const uint64_t before = std::exchange(early_bytes_, bytes);
  if (all_early_bytes_ != nullptr && before != bytes) all_early_bytes_->fetch_add(bytes - before);
}

absl::StatusOr<std::vector<StagedStep::Member>> StagedStep::Sum(std::span<const uint32_t> indices) {
  std::vector<Member> members;
  for (const uint32_t index : indices) {
    const Member* const member = Find(index);
    if (member == nullptr) continue;
    COHORT_RETURN_IF_ERROR(AddEarly(index).status());
    members.push_back(*member);
  }
  return members;
}

}  // namespace cohort
