#include "ps_server/copies/state_pieces.h"

#include <cstring>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace cohort {
namespace {

template <typename T>
BufferRef BufferOf(BufferPool* pool, const std::vector<T>& items) {
  BufferRef buffer = pool->Allocate(items.size() * sizeof(T));
  if (!items.empty()) std::memcpy(buffer->data(), items.data(), items.size() * sizeof(T));
  return buffer;
}

void AddField(BufferRef field, CopyLogEntry* entry) {
  entry->bytes += field->size();
  entry->payload.push_back(std::move(field));
}

std::span<const int64_t> RowsIn(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const int64_t*>(bytes.data()), bytes.size() / sizeof(int64_t)};
}

}  // namespace

std::shared_ptr<CopyLogEntry> StatePieces::Next() {
  while (shard_ < state_.shards.size()) {
    if (auto piece = NextOfShard(state_.shards[shard_])) return piece;
    ++shard_;
    block_ = 0;
    slot_ = -1;
  }
  if (std::exchange(ended_, true)) return nullptr;
  auto last = std::make_shared<CopyLogEntry>();
  v1::CopyState* const piece = last->entry.mutable_state();
  *piece->mutable_cut() = *state_.cut;
  piece->set_open_step(open_step_);
  piece->set_step_try(step_try_);
  if (close_ != nullptr) *piece->mutable_last_close() = *close_;
  return last;
}

std::shared_ptr<CopyLogEntry> StatePieces::NextOfShard(const ShardSnapshot& shard) {
  if (shard.info->is_table()) {
    const size_t blocks = shard.blocks.size();
    for (; block_ < blocks + shard.counts.size(); ++block_) {
      auto piece =
          block_ < blocks ? RowsOf(shard, shard.blocks[block_]) : CountsOf(shard, block_ - blocks);
      if (piece == nullptr) continue;
      ++block_;
      return piece;
    }
    return nullptr;
  }
  if (block_ == shard.blocks.size()) return nullptr;
  const ShardBlock& block = shard.blocks[block_];
  auto entry = std::make_shared<CopyLogEntry>();
  v1::CopyState* const piece = entry->entry.mutable_state();
  piece->set_shard(shard.info->shard);
  piece->set_row_begin(static_cast<uint64_t>(block.row_begin));
  piece->set_rows(static_cast<uint64_t>(block.rows));
  piece->set_slot(slot_);
  const size_t row_bytes =
      slot_ < 0 ? shard.info->row_bytes() : shard.info->slot_row_bytes(static_cast<size_t>(slot_));
  const size_t bytes = static_cast<size_t>(block.rows) * row_bytes;
  AddField(BufferRef::PartOf(slot_ < 0 ? block.values : block.slots[slot_], 0, bytes), entry.get());
  if (++slot_ == static_cast<int>(shard.info->slots.size())) {
    slot_ = -1;
    ++block_;
  }
  return entry;
}

// Null: none of its rows exists.
std::shared_ptr<CopyLogEntry> StatePieces::RowsOf(const ShardSnapshot& shard,
                                                  const ShardBlock& block) {
  const auto* const names = reinterpret_cast<const int64_t*>(block.names->data());
  const auto* const clocks =
      block.clocks ? reinterpret_cast<const uint64_t*>(block.clocks->data()) : nullptr;
  std::vector<int64_t> rows;
  std::vector<size_t> places;
  for (int64_t i = 0; i < block.rows; ++i) {
    if (names[i] < 0) continue;
    if (clocks != nullptr && shard.rules->IsGone(clocks[i], shard.clock)) continue;
    rows.push_back(names[i]);
    places.push_back(static_cast<size_t>(i));
  }
  if (rows.empty()) return nullptr;
  auto entry = std::make_shared<CopyLogEntry>();
  v1::CopyState* const piece = entry->entry.mutable_state();
  piece->set_shard(shard.info->shard);
  piece->set_table(true);
  AddField(BufferOf(pool_, rows), entry.get());
  const ShardInfo& info = *shard.info;
  const size_t bytes = info.row_bytes();
  BufferRef values = pool_->Allocate(places.size() * bytes);
  for (size_t i = 0; i < places.size(); ++i) {
    std::memcpy(values->data() + i * bytes, block.values->data() + places[i] * bytes, bytes);
  }
  AddField(std::move(values), entry.get());
  // In the form of checkpoints, which Shard::AddRows takes.
  for (size_t s = 0; s < info.slots.size(); ++s) {
    const size_t stored = info.stored_row_bytes(s);
    BufferRef field = pool_->Allocate(places.size() * stored);
    for (size_t i = 0; i < places.size(); ++i) {
      GiveStored(info.slots[s], info.dtype,
                 block.slots[s]->data() + places[i] * info.slot_row_bytes(s),
                 {field->data() + i * stored, stored});
    }
    AddField(std::move(field), entry.get());
  }
  if (!shard.rules->needs_clocks()) return entry;
  std::vector<uint64_t> updated;
  for (const size_t place : places) updated.push_back(clocks == nullptr ? 0 : clocks[place]);
  AddField(BufferOf(pool_, updated), entry.get());
  return entry;
}

std::shared_ptr<CopyLogEntry> StatePieces::CountsOf(const ShardSnapshot& shard, size_t part) {
  if (shard.counts[part] == nullptr || shard.counts[part]->empty()) return nullptr;
  std::vector<int64_t> rows;
  std::vector<uint64_t> counts;
  std::vector<uint64_t> updated;
  for (const auto& [row, count] : *shard.counts[part]) {
    if (shard.rules->IsGone(count.updated, shard.clock)) continue;
    rows.push_back(row);
    counts.push_back(count.count);
    updated.push_back(count.updated);
  }
  if (rows.empty()) return nullptr;
  auto entry = std::make_shared<CopyLogEntry>();
  v1::CopyState* const piece = entry->entry.mutable_state();
  piece->set_shard(shard.info->shard);
  piece->set_table(true);
  piece->set_counts(true);
  AddField(BufferOf(pool_, rows), entry.get());
  AddField(BufferOf(pool_, counts), entry.get());
  AddField(BufferOf(pool_, updated), entry.get());
  return entry;
}

absl::Status AddPiece(const v1::CopyState& piece, std::span<const std::span<const uint8_t>> payload,
                      Tablet* tablet) {
  if (piece.has_cut()) {
    COHORT_RETURN_IF_ERROR(tablet->Restore(piece.cut().applied(), piece.cut().version()));
    tablet->BeginStep(piece.open_step(), piece.step_try());
    return absl::OkStatus();
  }
  if (payload.empty()) return DataLoss("a piece of tablet {} is empty", tablet->number());
  if (piece.table()) {
    return tablet->FillTable(piece.shard(), piece.counts(), RowsIn(payload[0]), payload.subspan(1));
  }
  return tablet->FillRows(piece.shard(), piece.slot(), static_cast<int64_t>(piece.row_begin()),
                          static_cast<int64_t>(piece.rows()), payload[0]);
}

}  // namespace cohort
