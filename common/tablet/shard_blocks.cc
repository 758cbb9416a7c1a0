#include "common/tablet/shard_blocks.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "common/base/thread_pool.h"
#include "common/tablet/row_tier.h"
#include "common/tensor/past_caches.h"
#include "common/tensor/precision.h"

namespace cohort {

namespace {

constexpr size_t kCacheLine = 64;

int BlockShift(const ShardInfo& info, const ShardOptions& options) {
  size_t bytes = options.block_bytes * (info.row_reads ? ShardOptions::kRowReadsFactor : 1);
  if (info.is_table() && options.disk != nullptr) {
    bytes = std::min(bytes, options.disk->block_bytes());
  }
  const size_t rows = std::max<size_t>(1, bytes / std::max<size_t>(info.row_bytes(), 1));
  return std::bit_width(rows) - 1;
}

void PrefetchRow(const BufferRef& buffer, size_t offset, size_t bytes) {
  const uint8_t* const row = buffer->data() + offset;
  for (size_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(row + at, 1);
}

// Item i of an array without alignment.
template <typename T>
T At(const uint8_t* items, size_t i) {
  T item;
  std::memcpy(&item, items + i * sizeof(T), sizeof(T));
  return item;
}

}  // namespace

void TakeStored(const SlotInfo& slot, DType dtype, std::span<const uint8_t> stored, uint8_t* to) {
  if (!slot.is_bfloat16) {
    if (!stored.empty()) std::memcpy(to, stored.data(), stored.size());
    return;
  }
  auto* const halves = reinterpret_cast<uint16_t*>(to);
  for (size_t i = 0; i < stored.size() / SizeOf(dtype); ++i) {
    if (dtype == DType::kFloat32) {
      halves[i] = Bfloat16Bits(At<float>(stored.data(), i));
    } else {
      halves[i] = Bfloat16Bits(static_cast<float>(At<double>(stored.data(), i)));
    }
  }
}

void GiveStored(const SlotInfo& slot, DType dtype, const uint8_t* from, std::span<uint8_t> stored) {
  if (!slot.is_bfloat16) {
    if (!stored.empty()) std::memcpy(stored.data(), from, stored.size());
    return;
  }
  for (size_t i = 0; i < stored.size() / SizeOf(dtype); ++i) {
    const float value = FromBfloat16Bits(At<uint16_t>(from, i));
    const double wide = value;
    if (dtype == DType::kFloat32) {
      std::memcpy(stored.data() + i * sizeof(value), &value, sizeof(value));
    } else {
      std::memcpy(stored.data() + i * sizeof(wide), &wide, sizeof(wide));
    }
  }
}

ShardBlocks::ShardBlocks(std::shared_ptr<const ShardInfo> info, BufferPool* pool,
                         const ShardOptions& options)
    : info_(std::move(info)),
      pool_(pool),
      options_(options),
      block_shift_(BlockShift(*info_, options)),
      row_bytes_(info_->row_bytes()) {
  for (size_t s = 0; s < info_->slots.size(); ++s) slot_bytes_[s] = info_->slot_row_bytes(s);
  const int64_t block_rows = int64_t{1} << block_shift_;
  for (int64_t row = 0; row < info_->rows && !info_->is_table(); row += block_rows) {
    ShardBlock block;
    block.row_begin = row;
    block.rows = std::min(block_rows, info_->rows - row);
    rows_ = row + block.rows;
    AllocateSlots(&block);
    blocks_.push_back(std::move(block));
  }
  const size_t bytes = values_bytes();
  std::vector<BufferRef> values;
  if (bytes >= options_.run_bytes && bytes > 0 && !info_->row_reads) {
    runs_.emplace(bytes, options_.allocate_run);
    PlaceInNextRun(&values);
  }
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const size_t size = static_cast<size_t>(blocks_[i].rows) * info_->row_bytes();
    blocks_[i].values = runs_.has_value() ? std::move(values[i]) : pool->Allocate(size);
  }
}

void ShardBlocks::AllocateSlots(ShardBlock* block) const {
  for (size_t s = 0; s < info_->slots.size(); ++s) {
    block->slots[s] = pool_->Allocate(static_cast<size_t>(block->rows) * info_->slot_row_bytes(s));
  }
}

void ShardBlocks::AddBlock() {
  ShardBlock block;
  block.row_begin = rows();
  block.rows = int64_t{1} << block_shift_;
  block.values = pool_->Allocate(static_cast<size_t>(block.rows) * info_->row_bytes());
  AllocateSlots(&block);
  block.names = pool_->Allocate(static_cast<size_t>(block.rows) * sizeof(int64_t));
  std::memset(block.names->data(), 0xFF, block.names->size());
  rows_ = block.row_begin + block.rows;
  blocks_.push_back(std::move(block));
  changed_.AddBlock();
}

void ShardBlocks::SetRowAt(int64_t place, int64_t row) {
  ShardBlock* const block = MutableBlockOf(place);
  if (const int64_t before = RowAt(place); changed_.active() && before >= 0 && before != row) {
    changed_.NoteRemoved(before);
  }
  NoteChange(*block, place, 1);
  SetAt(&block->names, place, row);
}

void ShardBlocks::DropLastBlock() {
  rows_ = blocks_.back().row_begin;
  blocks_.pop_back();
}

void ShardBlocks::SetAt(BufferRef* numbers, int64_t place, int64_t value) {
  if (!numbers->unique()) *numbers = CopyOf(*numbers);
  auto* const all = reinterpret_cast<int64_t*>((*numbers)->data());
  all[place & ((int64_t{1} << block_shift_) - 1)] = value;
}

void ShardBlocks::SetClockAt(int64_t place, uint64_t clock) {
  ShardBlock* const block = MutableBlockOf(place);
  if (!block->clocks) {
    block->clocks = pool_->Allocate(block->names->size());
    std::memset(block->clocks->data(), 0, block->clocks->size());
  }
  NoteChange(*block, place, 1);
  SetAt(&block->clocks, place, static_cast<int64_t>(clock));
}

void ShardBlocks::PlaceInNextRun(std::vector<BufferRef>* parts) {
  places_.assign(blocks_.size(), BufferRef());
  run_in_snapshot_ = false;
  const BufferRef run = runs_->Next();
  for (const ShardBlock& block : blocks_) {
    const size_t offset = static_cast<size_t>(block.row_begin) * info_->row_bytes();
    const size_t size = static_cast<size_t>(block.rows) * info_->row_bytes();
    parts->push_back(BufferRef::PartOf(run, offset, size));
  }
}

bool ShardBlocks::in_one_run() const {
  return runs_.has_value() && std::ranges::all_of(blocks_, [&](const ShardBlock& block) {
           Buffer* const whole = block.values->whole();
           return whole != block.values.get() && whole == blocks_[0].values->whole();
         });
}

// A whole version is written at the same cost wherever it goes: an update reads all values anyway.
void ShardBlocks::BeginWhole() {
  next_.clear();
  if (!runs_.has_value()) return;
  const bool shared =
      std::ranges::any_of(blocks_, [](const ShardBlock& block) { return !block.values.unique(); });
  if (!shared && in_one_run()) return runs_->NoteInPlace();
  PlaceInNextRun(&next_);
}

absl::Status ShardBlocks::Fill(Filler fill) {
  for (ShardBlock& block : blocks_) {
    NoteChange(block);
    absl::Status filled =
        fill(-1, block.row_begin, block.rows, {block.values->data(), block.values->size()});
    for (size_t s = 0; s < info_->slots.size() && filled.ok(); ++s) {
      filled = FillSlot(fill, block, s, block.slots[s]->data());
    }
    if (!filled.ok()) return filled;
  }
  return absl::OkStatus();
}

// What `fill` leaves keeps what it is in the block.
absl::Status ShardBlocks::FillSlot(Filler fill, const ShardBlock& block, size_t slot, uint8_t* to) {
  const SlotInfo& info = info_->slots[slot];
  const auto number = static_cast<int>(slot);
  const size_t bytes = static_cast<size_t>(block.rows) * info_->stored_row_bytes(slot);
  if (!info.is_bfloat16) return fill(number, block.row_begin, block.rows, {to, bytes});
  const BufferRef stored = pool_->Allocate(bytes);
  const std::span<uint8_t> all(stored->data(), bytes);
  GiveStored(info, info_->dtype, block.slots[slot]->data(), all);
  const absl::Status filled = fill(number, block.row_begin, block.rows, all);
  if (filled.ok()) TakeStored(info, info_->dtype, all, to);
  return filled;
}

absl::Status ShardBlocks::Overwrite(Filler fill) {
  BeginWhole();
  for (ShardBlock& block : blocks_) {
    ShardBlock fresh;
    const UpdateTarget target = TargetOf(block, &fresh);
    const size_t bytes = static_cast<size_t>(block.rows) * info_->row_bytes();
    absl::Status filled =
        fill(-1, block.row_begin, block.rows, {static_cast<uint8_t*>(target.variable_out), bytes});
    for (size_t s = 0; s < info_->slots.size() && filled.ok(); ++s) {
      filled = FillSlot(fill, block, s, static_cast<uint8_t*>(target.slots_out[s]));
    }
    if (!filled.ok()) return filled;
    Replace(&block, &fresh);
  }
  return absl::OkStatus();
}

void ShardBlocks::ForEach(size_t work_bytes, absl::FunctionRef<void(ShardBlock*)> apply) {
  if (options_.helpers != nullptr && work_bytes >= options_.split_bytes) {
    options_.helpers->ForEach(blocks_.size(), [&](size_t i) { apply(&blocks_[i]); });
    return;
  }
  for (ShardBlock& block : blocks_) apply(&block);
}

void ShardBlocks::ForEachPart(size_t items, size_t item_bytes,
                              absl::FunctionRef<void(size_t, size_t)> apply) {
  if (options_.helpers == nullptr || items * item_bytes < options_.split_bytes) {
    return apply(0, items);
  }
  constexpr size_t kParts = 64;
  const size_t part = (items + kParts - 1) / kParts;
  options_.helpers->ForEach(kParts, [&](size_t i) {
    const size_t begin = std::min(items, i * part);
    apply(begin, std::min(items, begin + part));
  });
}

UpdateTarget ShardBlocks::TargetOf(const ShardBlock& block, ShardBlock* fresh) {
  NoteChange(block);
  const auto writable = [this](const BufferRef& buffer, BufferRef* copy) {
    if (*copy) {
      if (!buffer.unique()) copied_.fetch_add(1, std::memory_order_relaxed);
      return copy->get()->data();
    }
    if (buffer.unique()) return buffer.get()->data();
    *copy = pool_->Allocate(buffer->size());
    copied_.fetch_add(1, std::memory_order_relaxed);
    return copy->get()->data();
  };
  if (!next_.empty()) {
    fresh->values = std::move(next_[static_cast<size_t>(&block - blocks_.data())]);
  }
  UpdateTarget target;
  target.dtype = info_->dtype;
  target.variable_in = block.values->data();
  target.variable_out = writable(block.values, &fresh->values);
  target.past_caches = !next_.empty() && values_bytes() >= kPastCachesBytes;
  for (size_t s = 0; s < info_->slots.size(); ++s) {
    target.slots_in[s] = block.slots[s]->data();
    target.slots_out[s] = writable(block.slots[s], &fresh->slots[s]);
  }
  return target;
}

void ShardBlocks::Replace(ShardBlock* block, ShardBlock* fresh) {
  if (fresh->values) TakeValues(block, std::move(fresh->values));
  for (int s = 0; s < kMaxSlots; ++s) {
    if (fresh->slots[s]) block->slots[s] = std::move(fresh->slots[s]);
  }
}

BufferRef ShardBlocks::CopyOf(const BufferRef& buffer) {
  BufferRef copy = pool_->Allocate(buffer->size());
  std::memcpy(copy->data(), buffer->data(), copy->size());
  copied_.fetch_add(1, std::memory_order_relaxed);
  return copy;
}

uint8_t* ShardBlocks::WritableValues(ShardBlock* block) {
  if (!block->values.unique()) TakeValues(block, CopyOf(block->values));
  return block->values->data();
}

uint8_t* ShardBlocks::MakeWritable(ShardBlock* block, int64_t first, int64_t rows) {
  NoteChange(*block, first, rows);
  return WritableValues(block);
}

UpdateTarget ShardBlocks::TargetInPlace(ShardBlock* block, std::span<const int64_t> rows) {
  if (changed_.active()) {
    for (const int64_t row : rows) NoteChange(*block, row, 1);
  }
  UpdateTarget target;
  target.dtype = info_->dtype;
  target.variable_out = WritableValues(block);
  target.variable_in = target.variable_out;
  for (size_t s = 0; s < info_->slots.size(); ++s) {
    BufferRef& slot = block->slots[s];
    if (!slot.unique()) slot = CopyOf(slot);
    target.slots_out[s] = slot->data();
    target.slots_in[s] = target.slots_out[s];
  }
  return target;
}

void ShardBlocks::Prefetch(int64_t row) const {
  const ShardBlock& block = BlockOf(row);
  const auto at = static_cast<size_t>(row - block.row_begin);
  PrefetchRow(block.values, at * row_bytes_, row_bytes_);
  for (size_t s = 0; s < kMaxSlots && slot_bytes_[s] > 0; ++s) {
    PrefetchRow(block.slots[s], at * slot_bytes_[s], slot_bytes_[s]);
  }
}

// Blocks are updated on several threads, each of which writes its own place.
void ShardBlocks::TakeValues(ShardBlock* block, BufferRef values) {
  const bool leaves = runs_.has_value() && block->values->whole() != block->values.get() &&
                      values->whole() == values.get();
  BufferRef before = std::exchange(block->values, std::move(values));
  if (leaves) places_[static_cast<size_t>(block - blocks_.data())] = std::move(before);
}

std::vector<ShardBlock> ShardBlocks::Snapshot() {
  run_in_snapshot_ = true;
  return blocks_;
}

std::shared_ptr<const RowChanges> ShardBlocks::TakeChanges(const SnapshotRequest& request,
                                                           uint64_t clock) {
  if (!info_->row_reads && !info_->is_table()) return nullptr;
  return changed_.Take(request, blocks_.size(), clock);
}

bool ShardBlocks::SharesValues(const ShardBlock& block) const {
  const bool in_run = block.values->whole() != block.values.get();
  return !block.values.unique() && (run_in_snapshot_ || !in_run);
}

uint64_t ShardBlocks::SharedBytes(const ShardBlock& block) const {
  uint64_t bytes = SharesValues(block) ? block.values->size() : 0;
  for (const BufferRef& slot : block.slots) {
    if (slot && !slot.unique()) bytes += slot->size();
  }
  return bytes;
}

uint64_t ShardBlocks::BytesToCopy() const {
  uint64_t bytes = 0;
  bool another_run = runs_.has_value() && !in_one_run();
  for (const ShardBlock& block : blocks_) {
    bytes += SharedBytes(block);
    if (!SharesValues(block) || !runs_.has_value()) continue;
    bytes -= block.values->size();
    another_run = true;
  }
  return bytes + (another_run ? values_bytes() : 0);
}

uint64_t ShardBlocks::BytesToCopy(std::span<const int64_t> keys) const {
  uint64_t bytes = 0;
  const ShardBlock* last = nullptr;
  for (const int64_t key : keys) {
    const ShardBlock& block = BlockOf(key);
    if (&block != last) bytes += SharedBytes(block);
    last = &block;
  }
  return bytes;
}

void ShardBlocks::Reclaim() {
  for (size_t i = 0; i < places_.size(); ++i) {
    if (!places_[i] || !places_[i].unique() || !blocks_[i].values.unique()) continue;
    std::memcpy(places_[i]->data(), blocks_[i].values->data(), places_[i]->size());
    blocks_[i].values = std::move(places_[i]);
  }
  if (runs_.has_value()) runs_->DropSpare();
}

}  // namespace cohort
