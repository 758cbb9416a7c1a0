#ifndef COHORT_COMMON_TABLET_TABLE_ROWS_H_
#define COHORT_COMMON_TABLET_TABLE_ROWS_H_

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/placement/initializers.h"
#include "common/tablet/shard_blocks.h"

namespace cohort {

// Which rows of a table without bounds (common/tensor/table_rows.h) exist in a shard, and their
// *places*: row numbers of the shard's blocks, which grow with the table. A row is made by the
// first update that names it, with the values that its key has in a dense range with the same
// initializer. Reads make no rows. Rows are those of the shard: the first is 0. Not thread-safe.
class TableRows {
 public:
  static constexpr int64_t kNoPlace = -1;

  // `blocks` outlive this; they are those of a table and have no rows yet.
  TableRows(std::shared_ptr<const ShardInfo> info, Initializer initializer, ShardBlocks* blocks)
      : info_(std::move(info)), initializer_(std::move(initializer)), blocks_(blocks) {}

  // The places of rows, kNoPlace for one that does not exist.
  void Find(std::span<const int64_t> rows, std::vector<int64_t>* places) const;
  // The places of rows, which are made if they do not exist.
  void FindOrMake(std::span<const int64_t> rows, std::vector<int64_t>* places);
  // The values that a row begins with, and that it has before it exists.
  void FirstValues(int64_t row, void* out) const;
  // Adds rows that do not exist, with these values and slots: spans of rows.size() rows.
  void Add(std::span<const int64_t> rows, std::span<const std::span<const uint8_t>> tensors);

  size_t size() const { return static_cast<size_t>(count_); }

 private:
  // An index grows when it is full: one of these parts at a time, so that no update waits long.
  static constexpr size_t kParts = 256;
  using Part = absl::flat_hash_map<int64_t, int64_t>;

  const Part& PartOf(int64_t row) const { return parts_[static_cast<size_t>(row) % kParts]; }
  Part& PartOf(int64_t row) { return parts_[static_cast<size_t>(row) % kParts]; }
  // Gives the row the next free place.
  int64_t Take(int64_t row);

  const std::shared_ptr<const ShardInfo> info_;
  const Initializer initializer_;
  ShardBlocks* const blocks_;
  std::array<Part, kParts> parts_;
  int64_t count_ = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_TABLE_ROWS_H_
