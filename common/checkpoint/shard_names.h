#ifndef COHORT_COMMON_CHECKPOINT_SHARD_NAMES_H_
#define COHORT_COMMON_CHECKPOINT_SHARD_NAMES_H_

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/tensor/tensor.h"

namespace cohort {

// How the tensors in a checkpoint's shard files are named. One logical tensor (a variable, or one
// optimizer slot of it) lies in pieces, each a range of its rows (axis 0):
//
//   <variable>/rows_<begin>_<end>            dense/kernel/rows_0_392
//   <variable>@<slot>/rows_<begin>_<end>     dense/kernel@momentum/rows_0_392
//
// `end` is exclusive. The pieces of one logical tensor are disjoint, cover all of its rows, and may
// be spread over all files of the checkpoint. Concatenated along axis 0 in order of `begin`, they
// give the tensor; tests/python/load_checkpoint.py does this in ten lines. A scalar has one row,
// rows_0_1, and shape []. A slot has the shape of its variable, or one number for each of its rows.
//
// A table without bounds (common/tensor/table_rows.h) has pieces with only those rows of the range
// that exist, ascending, and the slot `keys` (int64) beside them: the key of each row. The row of a
// key is RowOfKey.
//
// An increment (Manifest.base) may have pieces with only those rows of the range that have changed
// since its base. Such a piece has the same name and fewer rows. Beside it lies
//
//   <variable>@changed_rows/rows_<begin>_<end>   int64: the number of each of these rows, ascending
//   <variable>@removed_keys/rows_<begin>_<end>   a table instead: the keys of rows that are gone
//
// A reader takes the base's rows of the range, without those that are removed, and puts the rows of
// the piece in their places or, in a table, beside them. `keys` has the keys of the rows that have
// changed. What is counted for rows that are not admitted, and all other pieces, are whole.
struct ShardTensorName {
  std::string variable;
  std::string slot;  // "" = the variable's own values
  uint64_t row_begin = 0;
  uint64_t row_end = 0;

  std::string ToString() const;
  // Nullopt if the name does not have this form.
  static std::optional<ShardTensorName> Parse(std::string_view name);
};

// Variables may not contain '@', and slots neither '@' nor '/', so that names are unambiguous.
absl::Status CheckVariableName(std::string_view variable);
absl::Status CheckSlotName(std::string_view slot);

// The slots of a table: the keys of its rows and when each was updated; the keys of rows that are
// not admitted yet, how often updates have named each, and when the last did.
inline constexpr char kKeysSlot[] = "keys";
inline constexpr char kUpdatedSlot[] = "updated";
inline constexpr char kCountedKeysSlot[] = "counted_keys";
inline constexpr char kCountsSlot[] = "counts";
inline constexpr char kCountedSlot[] = "counted";
// What a piece of an increment has beside it, for a dense range and for a table.
inline constexpr char kChangedRowsSlot[] = "changed_rows";
inline constexpr char kRemovedKeysSlot[] = "removed_keys";
// True for these: int64, one number for each row.
bool IsSlotOfTable(std::string_view slot);

// The number of rows of a tensor with these dims: dims[0], or 1 for a scalar.
uint64_t RowsOf(std::span<const int64_t> dims);
// The dims of a piece of `rows` rows: {rows, dims[1], ...}, or {} for a scalar.
Dims PieceDims(std::span<const int64_t> dims, uint64_t rows);

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_SHARD_NAMES_H_
