#include "common/tablet/snapshot_job.h"

#include <utility>

namespace cohort {

// What is dropped is freed behind the lock.
void SnapshotJob::Drop(BufferRef* buffer) {
  written_ += (*buffer)->size();
  {
    BufferRef dropped;
    MutexLock lock(&mu_);
    std::swap(dropped, *buffer);
  }
  if (on_progress) on_progress(written_);
}

void SnapshotJob::Release(ShardSnapshot* shard) {
  std::vector<ShardBlock> dropped;
  MutexLock lock(&mu_);
  dropped.swap(shard->blocks);
}

void SnapshotJob::ReleaseUnchanged(ShardSnapshot* shard) {
  std::vector<ShardBlock> dropped;
  MutexLock lock(&mu_);
  for (size_t b = 0; b < shard->blocks.size(); ++b) {
    ShardBlock& block = shard->blocks[b];
    if (shard->changes->HasAny(b)) continue;
    ShardBlock empty;
    empty.row_begin = block.row_begin;
    empty.rows = block.rows;
    dropped.push_back(std::exchange(block, std::move(empty)));
  }
}

void SnapshotJob::DropAll() {
  std::vector<TabletSnapshot> dropped;
  MutexLock lock(&mu_);
  dropped.swap(tablets);
  holds_any_.store(false, std::memory_order_release);
}

uint64_t SnapshotJob::superseded_bytes() const {
  uint64_t bytes = 0;
  const auto add = [&bytes](const BufferRef& buffer) {
    if (buffer && buffer.unique() && buffer->whole() == buffer.get()) bytes += buffer->size();
  };
  MutexLock lock(&mu_);
  for (const TabletSnapshot& tablet : tablets) {
    for (const ShardSnapshot& shard : tablet.shards) {
      for (const ShardBlock& block : shard.blocks) {
        add(block.values);
        for (const BufferRef& slot : block.slots) add(slot);
      }
    }
  }
  return bytes;
}

}  // namespace cohort
