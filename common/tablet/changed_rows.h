#ifndef COHORT_COMMON_TABLET_CHANGED_ROWS_H_
#define COHORT_COMMON_TABLET_CHANGED_ROWS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cohort {

// For which checkpoint a snapshot is taken. Checkpoints have the names of their directories.
struct SnapshotRequest {
  std::string checkpoint;   // "": none that another may have as its base
  std::string base;         // the snapshot may be an increment of it; "": all rows are wanted
  bool increments = false;  // a later snapshot may be an increment of this one
};

// What updates have changed in a shard since a snapshot.
struct RowChanges {
  // By block: a bit for each place that may have changed; empty: none has.
  std::vector<std::vector<uint64_t>> blocks;
  // A table: the rows of the shard that have lost their places. Some have another one since.
  std::vector<int64_t> removed;
  uint64_t clock = 0;  // the tablet's when they began

  bool HasAny(size_t block) const { return block < blocks.size() && !blocks[block].empty(); }
  bool Has(size_t block, int64_t place) const {
    const auto at = static_cast<size_t>(place);
    return HasAny(block) && (blocks[block][at / 64] >> (at % 64) & 1) != 0;
  }
};

// Collects the changes of a shard for the increments of its checkpoints. A snapshot begins a new
// list, and the one before stays until a later snapshot names its base:
//
//   snapshot of ──►  M          N           ─► now
//                    [ before_ ][   now_   ]
//
// A checkpoint may fail after its snapshot. So the next one names M again if N was not committed,
// and gets both lists. If it names neither M nor N, nobody knows what has changed since then, and
// it gets all rows. Not thread-safe, but threads may note places of different blocks.
class ChangedRows {
 public:
  bool active() const { return active_; }
  // `places` of a block of `size` places, from `first` on, are about to change.
  void Note(size_t block, int64_t size, int64_t first, int64_t places);
  // A row loses its place. If there are too many, the next snapshot gets all rows.
  void NoteRemoved(int64_t row);
  void AddBlock() {
    if (active_) now_.blocks.emplace_back();
  }

  // A snapshot of a shard of `blocks` blocks is taken at this clock. Returns what has changed since
  // the request's base; null: this is not known.
  std::shared_ptr<const RowChanges> Take(const SnapshotRequest& request, size_t blocks,
                                         uint64_t clock);

 private:
  void Stop();

  bool active_ = false;
  std::string base_;  // "": before_ has nothing
  RowChanges before_;
  std::string last_;
  RowChanges now_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_CHANGED_ROWS_H_
