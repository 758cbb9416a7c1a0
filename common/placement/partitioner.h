#ifndef COHORT_COMMON_PLACEMENT_PARTITIONER_H_
#define COHORT_COMMON_PLACEMENT_PARTITIONER_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cohort::v1 {
class PartitionerSpec;
class VariableSpec;
}  // namespace cohort::v1

namespace cohort {

// A contiguous range of rows (axis 0).
struct RowRange {
  int64_t begin = 0;
  int64_t rows = 0;
  int64_t end() const { return begin + rows; }
  bool operator==(const RowRange&) const = default;
};

// Returns the rows of a variable: the size of axis 0; a scalar has one row.
int64_t VariableRows(const v1::VariableSpec& variable);
// Returns the elements of one row: the product of the other axes.
int64_t RowElements(const v1::VariableSpec& variable);
// Returns how many of `rows` rows of a variable have memory from the start: none of a table without
// bounds (common/tensor/table_rows.h).
uint64_t HeldRows(const v1::VariableSpec& variable, uint64_t rows);
// Returns the bytes of the whole variable; 0 for a table without bounds.
int64_t VariableBytes(const v1::VariableSpec& variable);

// Cuts `rows` into `shards` ranges of rows / shards rows each; the first rows % shards ranges are
// one row longer. This is TensorFlow's "div" layout. `shards` is at least 1.
std::vector<RowRange> DivideRows(int64_t rows, int64_t shards);

// Decides into how many shards a variable is cut along axis 0, by the rules of
// tf.distribute.experimental.partitioners:
//
//   FixedShards(num_shards)      min(num_shards, dim0)
//   MinSize(min_shard_bytes,     max(1, min(dim0, max_shards, ceil(bytes / min_shard_bytes)))
//           max_shards)
//   MaxSize(max_shard_bytes,     ceil(dim0 / max(1, floor(max_shard_bytes / row_bytes))),
//           max_shards)          at most max_shards if that is given
//
// With `rows: hash`, the shards share the rows of a variable that steps read by rows as HashedRows
// says (common/tensor/hashed_rows.h); the number and the sizes of shards are the same.
//
// A scalar, a variable that is marked as whole, and every variable of a job that names no
// partitioner, is one shard.
class Partitioner {
 public:
  // The defaults are TensorFlow's: min_shard_bytes is 256 KiB, max_shards is 1 for MinSize and
  // unlimited for MaxSize. Errors: InvalidArgument that names the key under `strategy.partitioner`,
  // for an unknown class, a key that the class does not have, and a missing size.
  static absl::StatusOr<Partitioner> Create(const v1::PartitionerSpec& spec);

  int64_t NumShards(const v1::VariableSpec& variable) const;
  // True if the variable's shards share its rows by hash.
  bool HashesRows(const v1::VariableSpec& variable) const;
  // Returns the rows of each shard, in order; at least one range.
  std::vector<RowRange> Partition(const v1::VariableSpec& variable) const;

 private:
  enum class Kind { kNone, kFixedShards, kMinSize, kMaxSize };
  Partitioner(Kind kind, int64_t bytes, int64_t max_shards)
      : kind_(kind), bytes_(bytes), max_shards_(max_shards) {}
  static absl::StatusOr<Partitioner> CreateClass(const v1::PartitionerSpec& spec);

  Kind kind_;
  int64_t bytes_;       // MinSize, MaxSize: the size of a shard
  int64_t max_shards_;  // FixedShards: num_shards. 0: no limit
  bool hash_ = false;
};

}  // namespace cohort

#endif  // COHORT_COMMON_PLACEMENT_PARTITIONER_H_
