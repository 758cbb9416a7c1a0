#ifndef COHORT_COMMON_TABLET_TABLE_ROWS_H_
#define COHORT_COMMON_TABLET_TABLE_ROWS_H_

#include <absl/container/flat_hash_map.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/placement/initializers.h"
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
// depends on updates alone. Rows are those of the shard: the first is 0. Not thread-safe.
class TableRows {
 public:
  static constexpr int64_t kNoPlace = -1;
  static constexpr size_t kParts = 256;
  using Counts = absl::flat_hash_map<int64_t, RowCount>;
  // By part. A snapshot shares the parts; a change copies one that is shared.
  using AllCounts = std::array<std::shared_ptr<Counts>, kParts>;

  // `blocks` outlive this; they are those of a table and have no rows yet.
  TableRows(std::shared_ptr<const ShardInfo> info, const TableRules& rules, Initializer initializer,
            ShardBlocks* blocks);

  // The places of rows at this clock, kNoPlace for one that does not exist.
  void Find(std::span<const int64_t> rows, uint64_t clock, std::vector<int64_t>* places) const;
  // An update of `rows` begins. Makes those that do not exist; kNoPlace: it is not admitted.
  void FindOrMake(std::span<const int64_t> rows, uint64_t clock, std::vector<int64_t>* places);
  // The update of these places (or kNoPlace) has ended. Evicts rows.
  void EndUpdate(std::span<const int64_t> places, uint64_t clock);
  // The values that a row begins with, and that it has before it exists.
  void FirstValues(int64_t row, void* out) const;

  // Adds rows that do not exist, from a checkpoint: their values, slots and, if the rules need
  // them, clocks (uint64), as spans of rows.size() items. Without clocks, `clock` is that of all.
  void Add(std::span<const int64_t> rows, std::span<const std::span<const uint8_t>> tensors,
           uint64_t clock);
  // Adds counts of rows that do not exist: uint64 each.
  void AddCounts(std::span<const int64_t> rows, std::span<const uint64_t> counts,
                 std::span<const uint64_t> updated);

  const TableRules& rules() const { return rules_; }
  const AllCounts& counts() const { return counts_; }
  const TableCounts& figures() const { return figures_; }
  size_t size() const { return static_cast<size_t>(end_) - free_.size(); }

 private:
  // An index grows when it is full: one of these parts at a time, so that no update waits long.
  using Part = absl::flat_hash_map<int64_t, int64_t>;

  const Part& PartOf(int64_t row) const { return parts_[static_cast<size_t>(row) % kParts]; }
  Part& PartOf(int64_t row) { return parts_[static_cast<size_t>(row) % kParts]; }
  Counts& CountsOf(int64_t row);
  bool Admits(int64_t row, uint64_t clock);
  // Gives the row a free place, with its first values and slots.
  int64_t Make(int64_t row, uint64_t clock);
  int64_t Take(int64_t row, uint64_t clock);
  void Remove(int64_t place);
  bool IsSmall(int64_t place) const;
  // Frees the places of some rows that are gone.
  void Sweep(size_t places, uint64_t clock);
  // Removes the rows that were updated longest ago. It looks at all rows, so it is rare.
  void RemoveOldest();

  const std::shared_ptr<const ShardInfo> info_;
  const TableRules rules_;
  const Initializer initializer_;
  ShardBlocks* const blocks_;
  std::array<Part, kParts> parts_;
  AllCounts counts_;
  TableCounts figures_;
  std::vector<int64_t> free_;  // places below end_ without a row
  int64_t end_ = 0;
  int64_t swept_ = 0;  // the next place that Sweep looks at
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_TABLE_ROWS_H_
