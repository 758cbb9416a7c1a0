#ifndef COHORT_COMMON_TENSOR_HASHED_ROWS_H_
#define COHORT_COMMON_TENSOR_HASHED_ROWS_H_

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>

#include <algorithm>
#include <cstdint>
#include <span>

namespace cohort {

// Which rows of a variable each shard has if they are shared by hash. A *group* is as many
// neighboring rows as there are shards. Each shard has one row of each group, and a hash of the
// group's number turns them:
//
//   group 0   rows 0 1 2 3 ──► shards 2 3 0 1        row r: group r / shards, which is its row there
//   group 1   rows 4 5 6 7 ──► shards 1 2 3 0        shard (r + turn of the group) modulo shards
//   group 2   rows 8 9     ──► shards 0 1            the last one, if it is not full, is not turned
//
// So neither a vocabulary that is sorted by frequency nor ids with a common divisor give one shard
// more than its share, the rows of a shard ascend, and shards have the sizes of DivideRows
// (common/placement/partitioner.h).
class HashedRows {
 public:
  struct Place {
    int64_t shard = 0;  // in the order of ShardSpec.row_begin
    int64_t row = 0;    // within the shard

    bool operator==(const Place&) const = default;
  };

  HashedRows(int64_t rows, int64_t shards)
      : rows_(rows), shards_(std::max<int64_t>(shards, 1)), full_groups_(rows / shards_) {}

  Place PlaceOf(int64_t row) const {
    const int64_t group = row / shards_;
    const int64_t turned = row - group * shards_ + TurnOf(group);
    return {turned < shards_ ? turned : turned - shards_, group};
  }
  // The row of the variable that is at a place.
  int64_t RowAt(const Place& place) const {
    const int64_t turned_back = place.shard - TurnOf(place.row);
    return place.row * shards_ + (turned_back < 0 ? turned_back + shards_ : turned_back);
  }
  int64_t rows() const { return rows_; }
  int64_t shards() const { return shards_; }
  // The rows of a shard, and those of all shards before it.
  int64_t RowsOf(int64_t shard) const {
    return full_groups_ + (shard < rows_ - full_groups_ * shards_ ? 1 : 0);
  }
  int64_t BeginOf(int64_t shard) const {
    return full_groups_ * shard + std::min(shard, rows_ - full_groups_ * shards_);
  }

  bool operator==(const HashedRows&) const = default;

 private:
  // By SplitMix64's mix (Steele, Lea, Flood, 2014).
  int64_t TurnOf(int64_t group) const {
    if (group >= full_groups_) return 0;
    auto x = static_cast<uint64_t>(group) + 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return static_cast<int64_t>((x >> 32) * static_cast<uint64_t>(shards_) >> 32);
  }

  int64_t rows_;
  int64_t shards_;
  int64_t full_groups_;
};

// Reads `out`.size() / row_bytes rows of a shard, from `first` on, out of what has the variable's
// rows in their order. `read`(first row of the variable, rows, where to) reads whole groups, a few
// megabytes at once. Errors: those of `read`.
absl::Status ReadHashedShard(
    const HashedRows& hashed, HashedRows::Place first, size_t row_bytes, std::span<uint8_t> out,
    absl::FunctionRef<absl::Status(int64_t, int64_t, std::span<uint8_t>)> read);

// Reads rows [begin, begin + out.size() / row_bytes) of the variable out of what has its shards one
// after the other. `read`(first row in this order, rows, where to).
absl::Status ReadFromHashedShards(
    const HashedRows& hashed, int64_t begin, size_t row_bytes, std::span<uint8_t> out,
    absl::FunctionRef<absl::Status(int64_t, int64_t, std::span<uint8_t>)> read);

}  // namespace cohort

#endif  // COHORT_COMMON_TENSOR_HASHED_ROWS_H_
