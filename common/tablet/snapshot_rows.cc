#include "common/tablet/snapshot_rows.h"

#include <absl/functional/function_ref.h>

#include <algorithm>
#include <tuple>

#include "common/base/status.h"

namespace cohort {
namespace {

const ShardBlock& BlockOf(const ShardSnapshot& shard, int64_t place) {
  // All blocks have the same number of places.
  return shard.blocks[static_cast<size_t>(place / shard.blocks.front().rows)];
}

// Calls `visit`(row, place) for the rows in blocks that are not gone.
void ForEachInBlocks(const ShardSnapshot& shard, absl::FunctionRef<void(int64_t, int64_t)> visit) {
  for (const ShardBlock& block : shard.blocks) {
    const auto* const names = reinterpret_cast<const int64_t*>(block.names->data());
    const auto* const clocks =
        block.clocks ? reinterpret_cast<const uint64_t*>(block.clocks->data()) : nullptr;
    for (int64_t i = 0; i < block.rows; ++i) {
      if (names[i] < 0) continue;
      if (clocks != nullptr && shard.rules->IsGone(clocks[i], shard.clock)) continue;
      visit(names[i], block.row_begin + i);
    }
  }
}

}  // namespace

SnapshotRows::SnapshotRows(const ShardSnapshot& shard) : shard_(shard) {
  ForEachInBlocks(shard, [this](int64_t row, int64_t place) { rows_.emplace_back(row, place); });
  std::ranges::sort(rows_);
}

absl::StatusOr<uint64_t> SnapshotRows::Count(const ShardSnapshot& shard) {
  uint64_t rows = 0;
  ForEachInBlocks(shard, [&rows](int64_t, int64_t) { ++rows; });
  if (shard.on_disk == nullptr) return rows;
  rows += shard.on_disk->rows();
  const uint64_t after = shard.rules->evict_after;
  if (after == 0 || shard.clock <= after) return rows;
  COHORT_ASSIGN_OR_RETURN(const uint64_t gone, shard.on_disk->CountOlder(shard.clock - after));
  return rows - gone;
}

SnapshotRows::Walk::Walk(const SnapshotRows& rows)
    : rows_(rows), cursor_(rows.shard_.on_disk == nullptr ? nullptr : rows.shard_.on_disk->Rows()) {
  if (cursor_ != nullptr) NextOnDisk();
}

void SnapshotRows::Walk::NextOnDisk() {
  do {
    has_cold_ = cursor_->Next();
  } while (has_cold_ && rows_.IsGone(row_record::ClockOf(cursor_->record())));
}

bool SnapshotRows::Walk::Next() {
  // The cursor stays at its row until the next one is asked for.
  if (place_ < 0 && row_ >= 0) NextOnDisk();
  const bool in_blocks = next_ < rows_.rows_.size();
  if (has_cold_ && (!in_blocks || cursor_->row() < rows_.rows_[next_].first)) {
    row_ = cursor_->row();
    place_ = -1;
    return true;
  }
  if (!in_blocks) return false;
  std::tie(row_, place_) = rows_.rows_[next_++];
  return true;
}

uint64_t SnapshotRows::Walk::clock() const {
  if (place_ < 0) return row_record::ClockOf(cursor_->record());
  const ShardBlock& block = BlockOf(rows_.shard_, place_);
  return reinterpret_cast<const uint64_t*>(block.clocks->data())[place_ - block.row_begin];
}

const uint8_t* SnapshotRows::Walk::Tensor(int slot) const {
  const size_t bytes = rows_.shard_.info->row_bytes();
  if (place_ >= 0) {
    const ShardBlock& block = BlockOf(rows_.shard_, place_);
    const BufferRef& buffer = slot < 0 ? block.values : block.slots[slot];
    return buffer->data() + static_cast<size_t>(place_ - block.row_begin) * bytes;
  }
  const size_t values = rows_.shard_.average.has_value() ? 1 + *rows_.shard_.average : 0;
  const size_t tensor = slot < 0 ? values : 1 + static_cast<size_t>(slot);
  return cursor_->record() + row_record::kTensorsAt + tensor * bytes;
}

}  // namespace cohort
