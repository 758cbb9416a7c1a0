#ifndef COHORT_COMMON_TABLET_SNAPSHOT_ROWS_H_
#define COHORT_COMMON_TABLET_SNAPSHOT_ROWS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/tablet/shard.h"

namespace cohort {

// The rows of a table that exist at the clock of a snapshot, in ascending order: those in blocks,
// merged with those on disk. It takes 16 bytes for each row in blocks, and none for the others. The
// snapshot outlives it.
class SnapshotRows {
 public:
  explicit SnapshotRows(const ShardSnapshot& shard);

  // The number of rows, without sorting them.
  static absl::StatusOr<uint64_t> Count(const ShardSnapshot& shard);

  // One walk over the rows.
  class Walk {
   public:
    explicit Walk(const SnapshotRows& rows);
    // Moves to the next row, first to the first one. False: there is none, or the disk has failed.
    bool Next();
    int64_t row() const { return row_; }
    uint64_t clock() const;
    // The row's values (slot -1) or one of its slots.
    const uint8_t* Tensor(int slot) const;
    absl::Status status() const { return cursor_ ? cursor_->status() : absl::OkStatus(); }

   private:
    void NextOnDisk();

    const SnapshotRows& rows_;
    const std::unique_ptr<RowCursor> cursor_;  // null: there is no disk, or all of it was walked
    bool has_cold_ = false;                    // the cursor is at a row that exists
    size_t next_ = 0;                          // in rows_.rows_
    int64_t row_ = -1;
    int64_t place_ = -1;  // -1: the row is on disk
  };

 private:
  bool IsGone(uint64_t clock) const { return shard_.rules->IsGone(clock, shard_.clock); }

  const ShardSnapshot& shard_;
  std::vector<std::pair<int64_t, int64_t>> rows_;  // in blocks: (row, place), ascending
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_SNAPSHOT_ROWS_H_
