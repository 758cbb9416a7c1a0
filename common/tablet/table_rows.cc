#include "common/tablet/table_rows.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <tuple>

#include "common/tensor/table_rows.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

constexpr size_t kAhead = 8;
// RemoveOldest removes this part of the most rows, so that it happens rarely.
constexpr uint64_t kRemovedPart = 16;

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
                     Initializer initializer, ShardBlocks* blocks)
    : info_(std::move(info)), rules_(rules), initializer_(std::move(initializer)), blocks_(blocks) {
  for (std::shared_ptr<Counts>& part : counts_) part = std::make_shared<Counts>();
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
    if (place == kNoPlace || rules_.evict_after == 0) continue;
    if (rules_.IsGone(blocks_->ClockAt(place), clock)) place = kNoPlace;
  }
}

void TableRows::FindOrMake(std::span<const int64_t> rows, uint64_t clock,
                           std::vector<int64_t>* places) {
  Find(rows, clock, places);
  uint64_t made = 0, not_admitted = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    int64_t& place = (*places)[i];
    if (place != kNoPlace) continue;
    const Part& part = PartOf(rows[i]);
    if (const auto found = part.find(rows[i]); found != part.end()) {
      // The same row came before in this update, or it is gone.
      if (!rules_.IsGone(blocks_->ClockAt(found->second), clock)) {
        place = found->second;
        continue;
      }
      Remove(found->second);
    }
    if (Admits(rows[i], clock)) place = Make(rows[i], clock);
    ++(place == kNoPlace ? not_admitted : made);
  }
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
    if (++known.count < rules_.min_count) return false;
    if (rules_.probability >= 1 ||
        Draw(rules_.seed, info_->row_begin + row, clock) < rules_.probability) {
      counts.erase(row);
      return true;
    }
    return false;
  }
  return rules_.probability >= 1 ||
         Draw(rules_.seed, info_->row_begin + row, clock) < rules_.probability;
}

int64_t TableRows::Make(int64_t row, uint64_t clock) {
  const int64_t place = Take(row, clock);
  const UpdateTarget target = blocks_->TargetInPlace(blocks_->MutableBlockOf(place), {&place, 1});
  const auto offset = static_cast<size_t>(place - blocks_->BlockOf(place).row_begin);
  FirstValues(row, static_cast<uint8_t*>(target.variable_out) + offset * info_->row_bytes());
  std::vector<uint8_t> stored;
  for (size_t s = 0; s < info_->slots.size(); ++s) {
    const SlotInfo& slot = info_->slots[s];
    stored.resize(info_->stored_row_bytes(s));
    if (slot.is_copy) {
      FirstValues(row, stored.data());
    } else {
      SetAll(info_->dtype, slot.initial_value, stored.data(),
             static_cast<int64_t>(stored.size() / SizeOf(info_->dtype)));
    }
    TakeStored(slot, info_->dtype, stored,
               static_cast<uint8_t*>(target.slots_out[s]) + offset * info_->slot_row_bytes(s));
  }
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
  if (rules_.evict_after > 0) Sweep(2 * places.size() + 64, clock);
  if (rules_.max_rows == 0 || size() <= rules_.max_rows) return;
  // A checkpoint leaves out what is gone, so it must not count here either.
  if (rules_.evict_after > 0) Sweep(static_cast<size_t>(end_), clock);
  if (size() > rules_.max_rows) RemoveOldest();
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
    if (blocks_->RowAt(place) >= 0 && rules_.IsGone(blocks_->ClockAt(place), clock)) Remove(place);
  }
  if (rules_.min_count < 2) return;
  Counts& counts = CountsOf(static_cast<int64_t>(clock % kParts));
  absl::erase_if(counts, [&](const auto& c) { return rules_.IsGone(c.second.updated, clock); });
}

void TableRows::RemoveOldest() {
  std::vector<std::tuple<uint64_t, int64_t, int64_t>> rows;  // clock, row, place
  for (int64_t place = 0; place < end_; ++place) {
    const int64_t row = blocks_->RowAt(place);
    if (row >= 0) rows.emplace_back(blocks_->ClockAt(place), row, place);
  }
  const size_t removed = static_cast<size_t>(size() - rules_.max_rows) +
                         static_cast<size_t>(rules_.max_rows / kRemovedPart);
  const auto end = rows.begin() + static_cast<int64_t>(std::min(removed, rows.size()));
  std::nth_element(rows.begin(), end, rows.end());
  std::for_each(rows.begin(), end, [this](const auto& row) { Remove(std::get<2>(row)); });
}

void TableRows::Add(std::span<const int64_t> rows,
                    std::span<const std::span<const uint8_t>> tensors, uint64_t clock) {
  const size_t row_bytes = info_->row_bytes();
  const size_t of_rows = 1 + info_->slots.size();
  for (size_t i = 0; i < rows.size(); ++i) {
    uint64_t updated = clock;
    if (tensors.size() > of_rows) {
      std::memcpy(&updated, tensors[of_rows].data() + i * sizeof(updated), sizeof(updated));
    }
    const int64_t place = Take(rows[i], updated);
    const UpdateTarget target = blocks_->TargetInPlace(blocks_->MutableBlockOf(place), {&place, 1});
    const auto offset = static_cast<size_t>(place - blocks_->BlockOf(place).row_begin);
    std::memcpy(static_cast<uint8_t*>(target.variable_out) + offset * row_bytes,
                tensors[0].data() + i * row_bytes, row_bytes);
    for (size_t s = 0; s + 1 < of_rows && s + 1 < tensors.size(); ++s) {
      const size_t stored = info_->stored_row_bytes(s);
      TakeStored(info_->slots[s], info_->dtype, tensors[s + 1].subspan(i * stored, stored),
                 static_cast<uint8_t*>(target.slots_out[s]) + offset * info_->slot_row_bytes(s));
    }
  }
}

void TableRows::AddCounts(std::span<const int64_t> rows, std::span<const uint64_t> counts,
                          std::span<const uint64_t> updated) {
  for (size_t i = 0; i < rows.size(); ++i) CountsOf(rows[i])[rows[i]] = {counts[i], updated[i]};
}

int64_t TableRows::Take(int64_t row, uint64_t clock) {
  int64_t place = end_;
  if (free_.empty()) {
    if (++end_ > blocks_->rows()) blocks_->AddBlock();
  } else {
    place = free_.back();
    free_.pop_back();
  }
  PartOf(row)[row] = place;
  figures_.rows.fetch_add(1, std::memory_order_relaxed);
  blocks_->SetRowAt(place, row);
  if (rules_.needs_clocks()) blocks_->SetClockAt(place, clock);
  return place;
}

void TableRows::Remove(int64_t place) {
  PartOf(blocks_->RowAt(place)).erase(blocks_->RowAt(place));
  figures_.rows.fetch_sub(1, std::memory_order_relaxed);
  figures_.evicted.fetch_add(1, std::memory_order_relaxed);
  blocks_->SetRowAt(place, kNoPlace);
  free_.push_back(place);
}

}  // namespace cohort
