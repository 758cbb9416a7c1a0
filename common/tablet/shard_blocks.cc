#include "common/tablet/shard_blocks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/work_pool.h"

namespace cohort {

ShardBlocks::ShardBlocks(std::shared_ptr<const ShardInfo> info, BufferPool* pool,
                         const ShardOptions& options)
    : info_(std::move(info)),
      pool_(pool),
      options_(options),
      block_rows_(static_cast<int64_t>(
          std::max<size_t>(1, options.block_bytes / std::max<size_t>(info_->row_bytes(), 1)))) {
  for (int64_t row = 0; row < info_->rows; row += block_rows_) {
    ShardBlock block;
    block.row_begin = row;
    block.rows = std::min(block_rows_, info_->rows - row);
    const size_t bytes = static_cast<size_t>(block.rows) * info_->row_bytes();
    block.values = pool->Allocate(bytes);
    for (size_t s = 0; s < info_->slots.size(); ++s) block.slots[s] = pool->Allocate(bytes);
    blocks_.push_back(std::move(block));
  }
}

absl::Status ShardBlocks::Fill(Filler fill) {
  const int slots = static_cast<int>(info_->slots.size());
  for (ShardBlock& block : blocks_) {
    for (int slot = -1; slot < slots; ++slot) {
      Buffer* buffer = (slot < 0 ? block.values : block.slots[slot]).get();
      absl::Status status =
          fill(slot, block.row_begin, block.rows, {buffer->data(), buffer->size()});
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

void ShardBlocks::ForEach(size_t work_bytes, absl::FunctionRef<void(ShardBlock*)> apply) {
  if (options_.helpers != nullptr && work_bytes >= options_.split_bytes) {
    options_.helpers->Run(blocks_.size(), [&](size_t i) { apply(&blocks_[i]); });
    return;
  }
  for (ShardBlock& block : blocks_) apply(&block);
}

UpdateTarget ShardBlocks::TargetOf(const ShardBlock& block, ShardBlock* fresh) {
  const auto writable = [this](const BufferRef& buffer, BufferRef* copy) {
    if (buffer.unique()) return buffer.get()->data();
    *copy = pool_->Allocate(buffer->size());
    copied_.fetch_add(1, std::memory_order_relaxed);
    return copy->get()->data();
  };
  UpdateTarget target;
  target.dtype = info_->dtype;
  target.variable_in = block.values->data();
  target.variable_out = writable(block.values, &fresh->values);
  for (size_t s = 0; s < info_->slots.size(); ++s) {
    target.slots_in[s] = block.slots[s]->data();
    target.slots_out[s] = writable(block.slots[s], &fresh->slots[s]);
  }
  return target;
}

void ShardBlocks::Replace(ShardBlock* block, ShardBlock* fresh) {
  if (fresh->values) block->values = std::move(fresh->values);
  for (int s = 0; s < kMaxSlots; ++s) {
    if (fresh->slots[s]) block->slots[s] = std::move(fresh->slots[s]);
  }
}

uint8_t* ShardBlocks::MakeWritable(ShardBlock* block) {
  if (!block->values.unique()) {
    BufferRef copy = pool_->Allocate(block->values->size());
    std::memcpy(copy->data(), block->values->data(), copy->size());
    block->values = std::move(copy);
    copied_.fetch_add(1, std::memory_order_relaxed);
  }
  return block->values->data();
}

}  // namespace cohort
