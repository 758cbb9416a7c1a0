#ifndef COHORT_COMMON_TABLET_TABLE_ROWS_H_
#define COHORT_COMMON_TABLET_TABLE_ROWS_H_

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/placement/initializers.h"
#include "common/tablet/row_tier.h"
#include "common/tablet/shard_blocks.h"

namespace cohort {

namespace v1 {
class TableSpec;
}

// Which rows of a table without bounds a shard keeps. Its *clock* is the number of updates that its
// tablet has applied: in mode sync it is the same on every server.
struct TableRules {
  explicit TableRules(const v1::TableSpec& spec, int64_t rows, int64_t rows_of_all);

  uint64_t min_count = 0;  // a row is made by the update that names it for this time; 0: the first
  double probability = 1;  // that an update makes the row, by a draw from (seed, row, clock)
  uint64_t seed = 0;
  uint64_t evict_after = 0;   // a row is gone when this many updates have not named it; 0: never
  double evict_below_l2 = 0;  // a row is gone when an update leaves it with a smaller norm
  uint64_t max_rows = 0;      // the shard keeps those that were updated last. 0: any number

  bool needs_clocks() const { return evict_after > 0 || max_rows > 0; }
  bool IsGone(uint64_t updated, uint64_t clock) const {
    return evict_after > 0 && clock > updated + evict_after;
  }
};

// How often updates have named a row that was not made, and the clock of the last one.
struct RowCount {
  uint64_t count = 0;
  uint64_t updated = 0;
};

// For metrics. Any thread reads it.
struct TableCounts {
  std::atomic<uint64_t> rows{0};          // that exist
  std::atomic<uint64_t> made{0};          // by updates
  std::atomic<uint64_t> evicted{0};       // rows that the rules have removed
  std::atomic<uint64_t> not_admitted{0};  // gradients of rows that were not made
};

// Which rows of a table without bounds (common/tensor/table_rows.h) exist in a shard, and their
// *places*: row numbers of the shard's blocks, which grow with the table. An update that names a
// row makes it, if the rules admit it, with the values that its key has in a dense range with the
// same initializer; if they do not, its gradient is dropped. Reads make no rows. All of this
// depends on updates alone. Rows are those of the shard: the first is 0. Not thread-safe, except
// for bytes().
//
// With a disk, a row lies in memory or in the disk's tier. An update takes the rows that it names
// into memory (TakeIn). If the memory of all tables is full, those that no update has named for the
// longest time leave: a sweep over the places gives each a second chance. A reader and a checkpoint
// see the same wherever a row lies.
class TableRows {
 public:
  static constexpr int64_t kNoPlace = -1;
  static constexpr size_t kParts = 256;
  // The most counts of a table: each shard has its part. Beyond, those that were counted longest
  // ago are dropped.
  static constexpr uint64_t kMostCounts = uint64_t{1} << 23;
  using Counts = absl::flat_hash_map<int64_t, RowCount>;
  // By part. A snapshot shares the parts; a change copies one that is shared.
  using AllCounts = std::array<std::shared_ptr<Counts>, kParts>;

  // `blocks` and `disk` (may be null) outlive this; the blocks are those of a table and have no
  // rows yet.
  TableRows(std::shared_ptr<const ShardInfo> info, const TableRules& rules, Initializer initializer,
            ShardBlocks* blocks, RowDisk* disk);
  ~TableRows();

  // The places of rows at this clock, kNoPlace for one that does not exist.
  void Find(std::span<const int64_t> rows, uint64_t clock, std::vector<int64_t>* places) const;
  // Finds rows as Find does, but takes those into memory first that lie on disk, and makes room for
  // those that may be made. After an error nothing that a reader sees has changed.
  absl::Status TakeIn(std::span<const int64_t> rows, uint64_t clock, std::vector<int64_t>* places);
  // Appends at most `count` of the free places that come next.
  void AppendFreePlaces(size_t count, std::vector<int64_t>* places) const {
    places->insert(places->end(), free_.rbegin(),
                   free_.rbegin() + static_cast<int64_t>(std::min(count, free_.size())));
  }
  // An update of `rows` begins. Makes those that Find or TakeIn has not found; kNoPlace: it is not
  // admitted.
  void Make(std::span<const int64_t> rows, uint64_t clock, std::span<int64_t> places);
  // The update of these places (or kNoPlace) has ended. Evicts rows.
  void EndUpdate(std::span<const int64_t> places, uint64_t clock);
  // The values that a row begins with, and that it has before it exists.
  void FirstValues(int64_t row, void* out) const;
  // Reads rows that Find has not found (`places`) from the disk: calls visit(index, record) for
  // those that are there. Takes none into memory.
  absl::Status ReadCold(std::span<const int64_t> rows, std::span<const int64_t> places,
                        uint64_t clock,
                        absl::FunctionRef<void(size_t, const uint8_t*)> visit) const;

  // Adds rows that do not exist, from a checkpoint: their values, slots and, if the rules need
  // them, clocks (uint64), as spans of rows.size() items. Without clocks, `clock` is that of all.
  // Those for which there is no room in memory go to the disk.
  absl::Status Add(std::span<const int64_t> rows, std::span<const std::span<const uint8_t>> tensors,
                   uint64_t clock);
  // Adds counts of rows that do not exist: uint64 each.
  void AddCounts(std::span<const int64_t> rows, std::span<const uint64_t> counts,
                 std::span<const uint64_t> updated);

  const TableRules& rules() const { return rules_; }
  const AllCounts& counts() const { return counts_; }
  const TableCounts& figures() const { return figures_; }
  size_t size() const { return in_memory() + (tier_ == nullptr ? 0 : tier_->rows()); }
  bool has_disk() const { return tier_ != nullptr; }
  // The rows on disk now. Null: there is no disk.
  std::shared_ptr<const RowView> ViewOfDisk() const {
    return tier_ == nullptr ? nullptr : tier_->View();
  }
  // The error of the disk after which some rows may be missing.
  const absl::Status& status() const { return status_; }
  // All memory: blocks, index, counts. Thread-safe.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  // An index grows when it is full: one of these parts at a time, so that no update waits long.
  using Part = absl::flat_hash_map<int64_t, int64_t>;

  size_t in_memory() const { return static_cast<size_t>(end_) - free_.size(); }
  const Part& PartOf(int64_t row) const { return parts_[static_cast<size_t>(row) % kParts]; }
  Part& PartOf(int64_t row) { return parts_[static_cast<size_t>(row) % kParts]; }
  Counts& CountsOf(int64_t row);
  bool Admits(int64_t row, uint64_t clock);
  void DropGoneCounts(Counts* counts, uint64_t clock) const;
  // Drops the oldest counts if there are too many.
  void LimitCounts(Counts* counts, uint64_t clock);
  // Gives the row a free place, with its first values and slots.
  int64_t MakeOne(int64_t row, uint64_t clock);
  int64_t Take(int64_t row, uint64_t clock);
  // The tensors of a place: its values and slots.
  template <typename Visit>
  void ForEachTensorAt(int64_t place, const Visit& visit);
  // The row does not exist any more; or it lies elsewhere (Free).
  void Remove(int64_t place);
  void Free(int64_t place);
  void CountEvicted(uint64_t rows);
  bool IsSmall(int64_t place) const;
  bool IsGoneAt(int64_t place, uint64_t clock) const {
    return rules_.evict_after > 0 && rules_.IsGone(blocks_->ClockAt(place), clock);
  }
  // Frees the places of some rows that are gone.
  void Sweep(size_t places, uint64_t clock);
  // Removes the rows that were updated longest ago. It looks at all rows in memory, so it is rare.
  void RemoveOldest();

  // With a disk:
  void Keep(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  // Makes `needed` places free. Rows of `kept` places stay.
  absl::Status MakeRoom(size_t needed, std::span<const int64_t> kept, uint64_t clock);
  // Moves at most `most` rows that were not used lately to the disk. Returns how many places are
  // free now that were not.
  absl::StatusOr<size_t> MoveOut(size_t most, std::span<const int64_t> kept, uint64_t clock);
  absl::Status MoveOut(std::span<const int64_t> places, uint64_t clock);
  // Gives memory back, because other tables need it.
  absl::Status Shrink(uint64_t clock);
  // Removes rows on disk that are gone, at most `most`.
  void SweepDisk(size_t most, uint64_t clock);
  // Adds a row to what PutOut writes.
  void AddToDisk(int64_t row, uint64_t clock, std::span<const std::span<const uint8_t>> tensors,
                 size_t index);
  absl::Status PutOut();
  void SetUsed(int64_t place) { used_[static_cast<size_t>(place) / 64] |= BitOf(place); }
  static uint64_t BitOf(int64_t place) { return uint64_t{1} << (static_cast<size_t>(place) % 64); }
  size_t record_bytes() const {
    return row_record::kTensorsAt + info_->row_bytes() * (1 + info_->slots.size());
  }
  size_t free_places() const { return free_.size() + static_cast<size_t>(blocks_->rows() - end_); }
  uint64_t BytesOfBlock() const;
  void NoteBytes();

  const std::shared_ptr<const ShardInfo> info_;
  const TableRules rules_;
  const Initializer initializer_;
  ShardBlocks* const blocks_;
  std::array<Part, kParts> parts_;
  AllCounts counts_;
  TableCounts figures_;
  std::vector<int64_t> free_;  // places below end_ without a row
  int64_t end_ = 0;
  int64_t swept_ = 0;         // the next place that Sweep looks at
  const size_t most_counts_;  // in a part
  std::atomic<uint64_t> bytes_{0};

  RowDisk* const disk_;                  // null: none, and nothing below is used
  const std::unique_ptr<RowTier> tier_;  // the rows on disk
  absl::Status status_;
  std::vector<uint64_t> used_;  // by place, a bit: an update has named it since MoveOut came by
  int64_t hand_ = 0;            // the next place that MoveOut looks at
  static constexpr uint64_t kNone = ~uint64_t{0};
  uint64_t oldest_on_disk_ = kNone;  // no clock on disk is lower
  // The rows that are on their way to the disk, and memory of reads.
  std::vector<int64_t> out_rows_;
  std::vector<uint8_t> out_records_;
  int64_t noted_in_memory_ = 0;  // what RowDisk::rows_in_memory has of this
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_TABLE_ROWS_H_
