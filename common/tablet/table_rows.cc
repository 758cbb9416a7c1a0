#include "common/tablet/table_rows.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <tuple>
#include <utility>

#include "common/base/status.h"
#include "common/tensor/table_rows.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

constexpr size_t kAhead = 8;
// RemoveOldest removes this part of the most rows, so that it happens rarely.
constexpr uint64_t kRemovedPart = 16;
// LimitCounts drops this part.
constexpr size_t kDroppedPart = 4;
// Rows that leave memory at once.
constexpr size_t kMovedAtOnce = 4096;
// What the writer of a checkpoint takes for a row in memory, to sort it.
constexpr uint64_t kSortedRowBytes = 16;

void SetAll(DType dtype, double value, uint8_t* out, int64_t elements) {
  if (dtype == DType::kFloat32) {
    std::fill_n(reinterpret_cast<float*>(out), elements, static_cast<float>(value));
  } else {
    std::fill_n(reinterpret_cast<double*>(out), elements, value);
  }
}

template <typename T>
double SquaresOf(const uint8_t* values, int64_t elements) {
  double squares = 0;
  const auto* const numbers = reinterpret_cast<const T*>(values);
  for (int64_t i = 0; i < elements; ++i) {
    squares += static_cast<double>(numbers[i]) * static_cast<double>(numbers[i]);
  }
  return squares;
}

// The most counts in one part of a shard's counts.
size_t MostCounts(const ShardInfo& info) {
  const double part = static_cast<double>(info.rows) / static_cast<double>(kTableRows);
  const double most = part * static_cast<double>(TableRows::kMostCounts) / TableRows::kParts;
  return static_cast<size_t>(std::max(16.0, std::ceil(most)));
}

template <typename Map>
uint64_t BytesOfMap(const Map& map) {
  return map.capacity() * (sizeof(typename Map::value_type) + 1);
}

// A number in [0, 1), by SplitMix64's mix.
double Draw(uint64_t seed, int64_t row, uint64_t clock) {
  uint64_t x = seed + 0x9e3779b97f4a7c15 * (static_cast<uint64_t>(row) + 1) + clock;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  x ^= x >> 31;
  return static_cast<double>(x >> 11) * 0x1p-53;
}

}  // namespace

TableRules::TableRules(const v1::TableSpec& spec, int64_t rows, int64_t rows_of_all)
    : min_count(spec.min_count()),
      probability(spec.probability() > 0 ? spec.probability() : 1),
      seed(spec.seed()),
      evict_after(spec.evict_after_steps()),
      evict_below_l2(spec.evict_below_l2()) {
  if (spec.max_rows() == 0) return;
  const double part = static_cast<double>(rows) / static_cast<double>(rows_of_all);
  max_rows = static_cast<uint64_t>(std::ceil(part * static_cast<double>(spec.max_rows())));
}

TableRows::TableRows(std::shared_ptr<const ShardInfo> info, const TableRules& rules,
                     Initializer initializer, ShardBlocks* blocks, RowDisk* disk)
    : info_(std::move(info)),
      rules_(rules),
      initializer_(std::move(initializer)),
      blocks_(blocks),
      most_counts_(MostCounts(*info_)),
      disk_(disk),
      tier_(disk == nullptr ? nullptr
                            : disk->AddTable(info_->shard, record_bytes(), rules.needs_clocks())) {
  for (std::shared_ptr<Counts>& part : counts_) part = std::make_shared<Counts>();
}

TableRows::~TableRows() {
  if (disk_ == nullptr) return;
  *disk_->rows_in_memory() -= noted_in_memory_;
  disk_->memory()->Note(bytes(), 0);
}

void TableRows::Find(std::span<const int64_t> rows, uint64_t clock,
                     std::vector<int64_t>* places) const {
  places->resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + kAhead < rows.size()) PartOf(rows[i + kAhead]).prefetch(rows[i + kAhead]);
    const Part& part = PartOf(rows[i]);
    const auto found = part.find(rows[i]);
    int64_t& place = (*places)[i];
    place = found == part.end() ? kNoPlace : found->second;
    if (place != kNoPlace && IsGoneAt(place, clock)) place = kNoPlace;
  }
}

void TableRows::Make(std::span<const int64_t> rows, uint64_t clock, std::span<int64_t> places) {
  uint64_t made = 0, not_admitted = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    int64_t& place = places[i];
    if (place != kNoPlace) continue;
    const Part& part = PartOf(rows[i]);
    if (const auto found = part.find(rows[i]); found != part.end()) {
      // The same row came before in this update, or it is gone.
      if (!IsGoneAt(found->second, clock)) {
        place = found->second;
        continue;
      }
      Remove(found->second);
    }
    if (Admits(rows[i], clock)) place = MakeOne(rows[i], clock);
    ++(place == kNoPlace ? not_admitted : made);
  }
  figures_.rows.store(size(), std::memory_order_relaxed);
  figures_.made.fetch_add(made, std::memory_order_relaxed);
  figures_.not_admitted.fetch_add(not_admitted, std::memory_order_relaxed);
}

TableRows::Counts& TableRows::CountsOf(int64_t row) {
  std::shared_ptr<Counts>& part = counts_[static_cast<size_t>(row) % kParts];
  if (part.use_count() > 1) part = std::make_shared<Counts>(*part);
  std::atomic_thread_fence(std::memory_order_acquire);  // a snapshot has read it, and has ended
  return *part;
}

bool TableRows::Admits(int64_t row, uint64_t clock) {
  if (rules_.min_count > 1) {
    Counts& counts = CountsOf(row);
    RowCount& known = counts[row];
    if (rules_.IsGone(known.updated, clock)) known.count = 0;
    known.updated = clock;
    if (++known.count < rules_.min_count) {
      LimitCounts(&counts, clock);
      return false;
    }
    if (rules_.probability >= 1 ||
        Draw(rules_.seed, info_->row_begin + row, clock) < rules_.probability) {
      counts.erase(row);
      return true;
    }
    LimitCounts(&counts, clock);
    return false;
  }
  return rules_.probability >= 1 ||
         Draw(rules_.seed, info_->row_begin + row, clock) < rules_.probability;
}

void TableRows::DropGoneCounts(Counts* counts, uint64_t clock) const {
  if (rules_.evict_after == 0) return;
  absl::erase_if(*counts, [&](const auto& c) { return rules_.IsGone(c.second.updated, clock); });
}

void TableRows::LimitCounts(Counts* counts, uint64_t clock) {
  if (counts->size() <= most_counts_) return;
  // A checkpoint leaves out what is gone, so it must not count here either.
  DropGoneCounts(counts, clock);
  if (counts->size() <= most_counts_) return;
  std::vector<std::pair<uint64_t, int64_t>> rows;  // clock, row
  for (const auto& [row, count] : *counts) rows.emplace_back(count.updated, row);
  const auto end = rows.begin() + static_cast<int64_t>(rows.size() / kDroppedPart + 1);
  std::nth_element(rows.begin(), end, rows.end());
  std::for_each(rows.begin(), end, [counts](const auto& row) { counts->erase(row.second); });
}

template <typename Visit>
void TableRows::ForEachTensorAt(int64_t place, const Visit& visit) {
  const UpdateTarget target = blocks_->TargetInPlace(blocks_->MutableBlockOf(place), {&place, 1});
  const auto offset = static_cast<size_t>(place - blocks_->BlockOf(place).row_begin);
  visit(0, static_cast<uint8_t*>(target.variable_out) + offset * info_->row_bytes());
  for (size_t s = 0; s < info_->slots.size(); ++s) {
    visit(1 + s, static_cast<uint8_t*>(target.slots_out[s]) + offset * info_->slot_row_bytes(s));
  }
}

int64_t TableRows::MakeOne(int64_t row, uint64_t clock) {
  const int64_t place = Take(row, clock);
  if (tier_ != nullptr) SetUsed(place);
  std::vector<uint8_t> stored;
  ForEachTensorAt(place, [&](size_t tensor, uint8_t* out) {
    if (tensor == 0) return FirstValues(row, out);
    const SlotInfo& slot = info_->slots[tensor - 1];
    stored.resize(info_->stored_row_bytes(tensor - 1));
    if (slot.is_copy) {
      FirstValues(row, stored.data());
    } else {
      SetAll(info_->dtype, slot.initial_value, stored.data(),
             static_cast<int64_t>(stored.size() / SizeOf(info_->dtype)));
    }
    TakeStored(slot, info_->dtype, stored, out);
  });
  return place;
}

void TableRows::FirstValues(int64_t row, void* out) const {
  const int64_t key = KeyOfRow(info_->row_begin + row);
  const uint64_t begin = static_cast<uint64_t>(key) * static_cast<uint64_t>(info_->row_elements);
  initializer_.Fill(info_->dtype, begin, begin + static_cast<uint64_t>(info_->row_elements), out);
}

void TableRows::EndUpdate(std::span<const int64_t> places, uint64_t clock) {
  for (const int64_t place : places) {
    if (place == kNoPlace) continue;
    if (rules_.needs_clocks()) blocks_->SetClockAt(place, clock);
    if (rules_.evict_below_l2 > 0 && blocks_->RowAt(place) >= 0 && IsSmall(place)) Remove(place);
  }
  if (rules_.evict_after > 0) {
    Sweep(2 * places.size() + 64, clock);
    SweepDisk(2 * places.size() + 64, clock);
  }
  if (rules_.max_rows > 0 && size() > rules_.max_rows) {
    // A checkpoint leaves out what is gone, so it must not count here either.
    if (rules_.evict_after > 0) {
      Sweep(static_cast<size_t>(end_), clock);
      SweepDisk(size(), clock);
    }
    if (size() > rules_.max_rows) RemoveOldest();
  }
  NoteBytes();
  if (tier_ != nullptr) Keep(Shrink(clock));
  figures_.rows.store(size(), std::memory_order_relaxed);
}

bool TableRows::IsSmall(int64_t place) const {
  const ShardBlock& block = blocks_->BlockOf(place);
  const uint8_t* const values =
      block.values->data() + static_cast<size_t>(place - block.row_begin) * info_->row_bytes();
  const double squares = info_->dtype == DType::kFloat32
                             ? SquaresOf<float>(values, info_->row_elements)
                             : SquaresOf<double>(values, info_->row_elements);
  return squares < rules_.evict_below_l2 * rules_.evict_below_l2;
}

void TableRows::Sweep(size_t places, uint64_t clock) {
  for (size_t i = 0; i < std::min(places, static_cast<size_t>(end_)); ++i) {
    if (swept_ >= end_) swept_ = 0;
    const int64_t place = swept_++;
    if (blocks_->RowAt(place) >= 0 && IsGoneAt(place, clock)) Remove(place);
  }
  if (rules_.min_count < 2) return;
  DropGoneCounts(&CountsOf(static_cast<int64_t>(clock % kParts)), clock);
}

void TableRows::RemoveOldest() {
  std::vector<std::tuple<uint64_t, int64_t, int64_t>> rows;  // clock, row, place
  for (int64_t place = 0; place < end_; ++place) {
    const int64_t row = blocks_->RowAt(place);
    if (row >= 0) rows.emplace_back(blocks_->ClockAt(place), row, place);
  }
  const size_t removed = static_cast<size_t>(size() - rules_.max_rows) +
                         static_cast<size_t>(rules_.max_rows / kRemovedPart);
  if (tier_ != nullptr) {
    const auto cold = tier_->Oldest(oldest_on_disk_, removed);
    if (!cold.ok()) return Keep(cold.status());
    for (const auto& [clock, row] : *cold) rows.emplace_back(clock, row, kNoPlace);
  }
  const auto end = rows.begin() + static_cast<int64_t>(std::min(removed, rows.size()));
  std::nth_element(rows.begin(), end, rows.end());
  std::vector<int64_t> cold;
  std::vector<uint64_t> clocks;
  for (const auto& [clock, row, place] : std::span(rows.begin(), end)) {
    if (place != kNoPlace) {
      Remove(place);
      continue;
    }
    cold.push_back(row);
    clocks.push_back(clock);
  }
  if (cold.empty()) return;
  CountEvicted(cold.size());
  Keep(tier_->Remove(cold, clocks));
}

absl::Status TableRows::Add(std::span<const int64_t> rows,
                            std::span<const std::span<const uint8_t>> tensors, uint64_t clock) {
  const size_t row_bytes = info_->row_bytes();
  const size_t of_rows = 1 + info_->slots.size();
  for (size_t i = 0; i < rows.size(); ++i) {
    uint64_t updated = clock;
    if (tensors.size() > of_rows) {
      std::memcpy(&updated, tensors[of_rows].data() + i * sizeof(updated), sizeof(updated));
    }
    if (tier_ != nullptr && free_places() == 0 && end_ > 0 &&
        !disk_->memory()->MayGrow(bytes(), BytesOfBlock())) {
      AddToDisk(rows[i], updated, tensors, i);
      continue;
    }
    const int64_t place = Take(rows[i], updated);
    ForEachTensorAt(place, [&](size_t tensor, uint8_t* out) {
      if (tensor >= tensors.size()) return;
      if (tensor == 0) {
        std::memcpy(out, tensors[0].data() + i * row_bytes, row_bytes);
        return;
      }
      const size_t stored = info_->stored_row_bytes(tensor - 1);
      TakeStored(info_->slots[tensor - 1], info_->dtype,
                 tensors[tensor].subspan(i * stored, stored), out);
    });
  }
  NoteBytes();
  COHORT_RETURN_IF_ERROR(PutOut());
  figures_.rows.store(size(), std::memory_order_relaxed);
  return absl::OkStatus();
}

void TableRows::AddCounts(std::span<const int64_t> rows, std::span<const uint64_t> counts,
                          std::span<const uint64_t> updated) {
  for (size_t i = 0; i < rows.size(); ++i) CountsOf(rows[i])[rows[i]] = {counts[i], updated[i]};
  NoteBytes();
}

int64_t TableRows::Take(int64_t row, uint64_t clock) {
  int64_t place = end_;
  if (free_.empty()) {
    if (++end_ > blocks_->rows()) {
      blocks_->AddBlock();
      NoteBytes();
    }
  } else {
    place = free_.back();
    free_.pop_back();
  }
  PartOf(row)[row] = place;
  blocks_->SetRowAt(place, row);
  if (rules_.needs_clocks()) blocks_->SetClockAt(place, clock);
  return place;
}

void TableRows::Remove(int64_t place) {
  Free(place);
  CountEvicted(1);
}

void TableRows::CountEvicted(uint64_t rows) {
  figures_.evicted.fetch_add(rows, std::memory_order_relaxed);
}

void TableRows::Free(int64_t place) {
  PartOf(blocks_->RowAt(place)).erase(blocks_->RowAt(place));
  blocks_->SetRowAt(place, kNoPlace);
  free_.push_back(place);
}

uint64_t TableRows::BytesOfBlock() const {
  const size_t numbers = rules_.needs_clocks() ? 2 : 1;  // names and clocks
  return static_cast<uint64_t>(blocks_->block_rows()) *
         (info_->held_row_bytes() + numbers * sizeof(int64_t));
}

void TableRows::NoteBytes() {
  uint64_t bytes = static_cast<uint64_t>(blocks_->rows() / blocks_->block_rows()) * BytesOfBlock();
  for (const Part& part : parts_) bytes += BytesOfMap(part);
  if (rules_.min_count > 1) {
    for (const auto& counts : counts_) bytes += BytesOfMap(*counts);
  }
  bytes += free_.capacity() * sizeof(int64_t);
  if (disk_ != nullptr) {
    used_.resize(static_cast<size_t>(blocks_->rows() + 63) / 64);
    bytes += used_.capacity() * sizeof(uint64_t) + in_memory() * kSortedRowBytes;
    disk_->memory()->Note(this->bytes(), bytes);
    const auto rows = static_cast<int64_t>(in_memory());
    *disk_->rows_in_memory() += rows - std::exchange(noted_in_memory_, rows);
  }
  bytes_.store(bytes, std::memory_order_relaxed);
}

// ------------------------------------------------------------------ rows on disk

absl::Status TableRows::ReadCold(std::span<const int64_t> rows, std::span<const int64_t> places,
                                 uint64_t clock,
                                 absl::FunctionRef<void(size_t, const uint8_t*)> visit) const {
  if (tier_ == nullptr) return absl::OkStatus();
  COHORT_RETURN_IF_ERROR(status_);
  std::vector<int64_t> cold;
  std::vector<size_t> indices;
  for (size_t i = 0; i < rows.size() && tier_->rows() > 0; ++i) {
    // A row in memory that is gone is not on disk either.
    if (places[i] != kNoPlace || PartOf(rows[i]).contains(rows[i])) continue;
    cold.push_back(rows[i]);
    indices.push_back(i);
  }
  const size_t in_memory =
      static_cast<size_t>(std::ranges::count_if(places, [](int64_t p) { return p != kNoPlace; }));
  size_t on_disk = 0;
  std::vector<uint8_t> records;
  std::vector<uint8_t> found;
  if (!cold.empty()) COHORT_RETURN_IF_ERROR(tier_->Read(cold, &records, &found));
  for (size_t i = 0; i < cold.size(); ++i) {
    const uint8_t* const record = records.data() + i * record_bytes();
    if (!found[i] || rules_.IsGone(row_record::ClockOf(record), clock)) continue;
    visit(indices[i], record);
    ++on_disk;
  }
  disk_->CountFound(in_memory, on_disk);
  return absl::OkStatus();
}

absl::Status TableRows::TakeIn(std::span<const int64_t> rows, uint64_t clock,
                               std::vector<int64_t>* places) {
  COHORT_RETURN_IF_ERROR(status_);
  Find(rows, clock, places);
  std::vector<int64_t> missing;
  for (size_t i = 0; i < rows.size(); ++i) {
    if ((*places)[i] != kNoPlace) {
      SetUsed((*places)[i]);
    } else if (!PartOf(rows[i]).contains(rows[i])) {
      missing.push_back(rows[i]);
    }
  }
  disk_->CountFound(rows.size() - missing.size(), 0);
  if (missing.empty()) return absl::OkStatus();
  std::ranges::sort(missing);
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  std::vector<uint8_t> records;
  std::vector<uint8_t> found(missing.size(), 0);
  if (tier_->rows() > 0) COHORT_RETURN_IF_ERROR(tier_->Read(missing, &records, &found));
  COHORT_RETURN_IF_ERROR(MakeRoom(missing.size(), *places, clock));
  std::vector<int64_t> read;
  std::vector<uint64_t> clocks;
  for (size_t i = 0; i < missing.size(); ++i) {
    if (!found[i]) continue;
    read.push_back(missing[i]);
    clocks.push_back(row_record::ClockOf(records.data() + i * record_bytes()));
  }
  if (read.empty()) return absl::OkStatus();
  COHORT_RETURN_IF_ERROR(tier_->Remove(read, clocks));
  // From here on nothing fails.
  for (size_t i = 0; i < missing.size(); ++i) {
    const uint8_t* const record = records.data() + i * record_bytes();
    if (!found[i]) continue;
    if (rules_.IsGone(row_record::ClockOf(record), clock)) {
      CountEvicted(1);
      continue;
    }
    const int64_t place = Take(missing[i], row_record::ClockOf(record));
    SetUsed(place);
    ForEachTensorAt(place, [&](size_t tensor, uint8_t* out) {
      std::memcpy(out, record + row_record::kTensorsAt + tensor * info_->row_bytes(),
                  info_->row_bytes());
    });
  }
  disk_->CountFound(0, read.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    int64_t& place = (*places)[i];
    if (place != kNoPlace) continue;
    const Part& part = PartOf(rows[i]);
    const auto it = part.find(rows[i]);
    if (it == part.end() || IsGoneAt(it->second, clock)) continue;
    place = it->second;
  }
  return absl::OkStatus();
}

absl::Status TableRows::MakeRoom(size_t needed, std::span<const int64_t> kept, uint64_t clock) {
  while (free_places() < needed) {
    bool grows = end_ == 0 || disk_->memory()->MayGrow(bytes(), BytesOfBlock());
    if (!grows) {
      const size_t least = std::min(kMovedAtOnce, static_cast<size_t>(end_) / 16);
      COHORT_ASSIGN_OR_RETURN(const size_t moved,
                              MoveOut(std::max(needed - free_places(), least), kept, clock));
      grows = moved == 0;  // an update's own rows always fit
    }
    if (!grows) continue;
    blocks_->AddBlock();
    NoteBytes();
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> TableRows::MoveOut(size_t most, std::span<const int64_t> kept,
                                          uint64_t clock) {
  std::vector<int64_t> moved;
  // In the first turn rows may all have been used.
  for (int turn = 0; turn < 2 && moved.empty(); ++turn) {
    for (const int64_t place : kept) {
      if (place != kNoPlace) SetUsed(place);
    }
    for (int64_t looked = 0; looked < end_ && moved.size() < most; ++looked) {
      if (hand_ >= end_) hand_ = 0;
      const int64_t place = hand_++;
      uint64_t& used = used_[static_cast<size_t>(place) / 64];
      if ((used & BitOf(place)) != 0) {
        used &= ~BitOf(place);
      } else if (blocks_->RowAt(place) >= 0) {
        moved.push_back(place);
      }
    }
  }
  COHORT_RETURN_IF_ERROR(MoveOut(moved, clock));
  return moved.size();
}

absl::Status TableRows::MoveOut(std::span<const int64_t> places, uint64_t clock) {
  for (const int64_t place : places) {
    const ShardBlock& block = blocks_->BlockOf(place);
    const uint64_t updated = rules_.needs_clocks() ? blocks_->ClockAt(place) : 0;
    if (rules_.IsGone(updated, clock)) continue;
    const size_t bytes = info_->row_bytes();
    const size_t offset = static_cast<size_t>(place - block.row_begin) * bytes;
    std::array<std::span<const uint8_t>, 1 + kMaxSlots> tensors;
    tensors[0] = {block.values->data() + offset, bytes};
    for (size_t s = 0; s < info_->slots.size(); ++s) {
      tensors[1 + s] = {block.slots[s]->data() + offset, bytes};
    }
    AddToDisk(blocks_->RowAt(place), updated, tensors, 0);
  }
  COHORT_RETURN_IF_ERROR(PutOut());
  for (const int64_t place : places) Free(place);
  return absl::OkStatus();
}

void TableRows::AddToDisk(int64_t row, uint64_t clock,
                          std::span<const std::span<const uint8_t>> tensors, size_t index) {
  out_rows_.push_back(row);
  const size_t at = out_records_.size();
  out_records_.resize(at + record_bytes());
  uint8_t* const record = out_records_.data() + at;
  const size_t bytes = info_->row_bytes();
  record[row_record::kFlagsAt] = 0;
  std::memcpy(record + row_record::kClockAt, &clock, sizeof(clock));
  for (size_t t = 0; t < std::min(tensors.size(), 1 + info_->slots.size()); ++t) {
    std::memcpy(record + row_record::kTensorsAt + t * bytes, tensors[t].data() + index * bytes,
                bytes);
  }
  oldest_on_disk_ = std::min(oldest_on_disk_, clock);
}

absl::Status TableRows::PutOut() {
  if (out_rows_.empty()) return absl::OkStatus();
  const absl::Status put = tier_->Put(out_rows_, out_records_);
  out_rows_.clear();
  out_records_.clear();
  return put;
}

absl::Status TableRows::Shrink(uint64_t clock) {
  while (disk_->memory()->MustShrink(bytes()) && blocks_->all().size() > 1) {
    const int64_t begin = blocks_->all().back().row_begin;
    std::vector<int64_t> moved;
    for (int64_t place = begin; place < end_; ++place) {
      if (blocks_->RowAt(place) >= 0) moved.push_back(place);
    }
    COHORT_RETURN_IF_ERROR(MoveOut(moved, clock));
    std::erase_if(free_, [begin](int64_t place) { return place >= begin; });
    end_ = std::min(end_, begin);
    blocks_->DropLastBlock();
    for (Part& part : parts_) {
      // It moves all of the part, so it must halve the memory at least.
      if (part.size() < part.capacity() / 4) part.rehash(0);
    }
    NoteBytes();
  }
  return absl::OkStatus();
}

void TableRows::SweepDisk(size_t most, uint64_t clock) {
  if (tier_ == nullptr || oldest_on_disk_ == kNone || !rules_.IsGone(oldest_on_disk_, clock)) {
    return;
  }
  const auto oldest = tier_->Oldest(oldest_on_disk_, most);
  if (!oldest.ok()) return Keep(oldest.status());
  std::vector<int64_t> rows;
  std::vector<uint64_t> clocks;
  for (const auto& [updated, row] : *oldest) {
    if (!rules_.IsGone(updated, clock)) break;
    rows.push_back(row);
    clocks.push_back(updated);
  }
  if (!rows.empty()) {
    CountEvicted(rows.size());
    Keep(tier_->Remove(rows, clocks));
  }
  if (rows.size() < oldest->size()) {
    oldest_on_disk_ = (*oldest)[rows.size()].first;
  } else {
    oldest_on_disk_ = oldest->size() < most ? kNone : clocks.back();
  }
}

}  // namespace cohort
