#ifndef COHORT_COMMON_TABLET_VALUE_RUNS_H_
#define COHORT_COMMON_TABLET_VALUE_RUNS_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "common/tensor/buffer.h"

namespace cohort {

// The runs of memory that hold all values of one shard, each run one version of them: the newest
// version, older versions that readers and snapshots still reference, and spare runs. Whoever
// writes a whole version while the newest one is shared writes it to another run, so that a reader
// finds every version in one piece. Not thread-safe.
class ValueRuns {
 public:
  // Returns `bytes` bytes that are not initialized; an empty reference if there is no such memory.
  using Allocator = std::function<BufferRef(size_t bytes)>;

  // The number of whole versions after which spare runs that were not needed are freed.
  static constexpr int kWindow = 64;

  // `allocate`: null or without memory: runs lie on the heap.
  ValueRuns(size_t bytes, Allocator allocate) : bytes_(bytes), allocate_(std::move(allocate)) {}

  // Returns a run for the next version, which nobody else references. Its contents are not defined.
  BufferRef Next();
  // The next version was written where the newest one was.
  void NoteInPlace() { NoteVersion(); }
  // Frees the spare runs: a snapshot needed them, and it has ended.
  void DropSpare();
  // Bytes of the runs with older versions that are still referenced.
  size_t superseded_bytes() const;
  // Runs that exist, spare ones included.
  size_t count() const { return runs_.size(); }

 private:
  void NoteVersion();

  const size_t bytes_;
  const Allocator allocate_;
  std::vector<BufferRef> runs_;
  int versions_ = 0;  // in this window
  const Buffer* newest_ = nullptr;
  size_t unneeded_ = 0;  // the fewest spare runs in this window
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_VALUE_RUNS_H_
