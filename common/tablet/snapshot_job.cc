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
