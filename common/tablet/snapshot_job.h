#ifndef COHORT_COMMON_TABLET_SNAPSHOT_JOB_H_
#define COHORT_COMMON_TABLET_SNAPSHOT_JOB_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/tablet/tablet.h"

namespace cohort {

// The shards of one cut that are to be written. It references memory that does not change, so
// writing may be slow. The thread that writes drops each buffer as soon as it is in the file.
struct SnapshotJob {
  uint64_t cut = 0;
  uint32_t ps = 0;
  std::string directory;  // the checkpoint's own
  std::vector<TabletSnapshot> tablets;
  std::atomic<bool> cancelled{false};
  // Called by the thread that writes, with the bytes that are in the file and, later, those that
  // are on the disk besides. May be null.
  std::function<void(uint64_t bytes)> on_progress;

  // A buffer of `tablets` is in the file. Only the thread that writes calls this.
  void Drop(BufferRef* buffer);
  // The file has all that it needs of the shard's blocks. Only the thread that writes calls this.
  void Release(ShardSnapshot* shard);
  // The same for the blocks of an increment in which nothing has changed: updates need not copy
  // them.
  void ReleaseUnchanged(ShardSnapshot* shard);
  // `bytes` are in the file, and no buffer is dropped. Only the thread that writes calls this.
  void Wrote(uint64_t bytes) {
    written_ += bytes;
    if (on_progress) on_progress(written_);
  }
  // `bytes` of the file have arrived on the disk. Only the thread that writes calls this.
  void Synced(uint64_t bytes) const {
    if (on_progress) on_progress(written_ + bytes);
  }
  // The job needs no buffer any more. To be called before the file is synced.
  void DropAll();
  // False after DropAll: it keeps no memory. Thread-safe.
  bool holds_any() const { return holds_any_.load(std::memory_order_acquire); }
  // Bytes that only this job keeps, because updates have written newer values elsewhere. Those of
  // shards with runs count there (ShardBlocks::superseded_bytes). Thread-safe.
  uint64_t superseded_bytes() const;

 private:
  mutable Mutex mu_;  // held while references are dropped, and while another thread looks at them
  std::atomic<bool> holds_any_{true};
  uint64_t written_ = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_SNAPSHOT_JOB_H_
