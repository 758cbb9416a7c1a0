#ifndef COHORT_COMMON_CHECKPOINT_CHECKPOINT_READER_H_
#define COHORT_COMMON_CHECKPOINT_CHECKPOINT_READER_H_

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/checkpoint/safetensors.h"
#include "common/tensor/dtype.h"
#include "common/tensor/hashed_rows.h"
#include "common/tensor/tensor.h"

namespace cohort::v1 {
class Manifest;
}

namespace cohort {

// One stored range of rows of a logical tensor.
struct StoredPiece {
  uint64_t row_begin = 0;
  uint64_t row_end = 0;
  size_t file = 0;  // which of the checkpoint's files
  TensorInfo info;
  // An increment: the piece has only the rows that this tensor of the same file names (of a table:
  // and those that it names are gone); the others are the base's (shard_names.h).
  std::optional<TensorInfo> changes;
};

// A whole variable, or one whole slot of it.
struct LogicalTensor {
  std::string variable;
  std::string slot;  // "" = the variable's values
  DType dtype = DType::kInvalid;
  Dims dims;
  std::vector<StoredPiece> pieces;  // ascending, without gaps
  // The shards of the cut shared the rows by hash: rows of pieces are those of its shards, each
  // shard after the one before.
  std::optional<HashedRows> hashed;
};

// One read of a restore: rows [row_begin, row_end) of the logical tensor out of one piece.
struct PlannedRead {
  const StoredPiece* piece = nullptr;
  uint64_t row_begin = 0;
  uint64_t row_end = 0;
};

// The reads that give rows [row_begin, row_begin + rows) of the pieces of `tensor`, ascending.
// Errors: OutOfRange.
absl::StatusOr<std::vector<PlannedRead>> PlanRows(const LogicalTensor& tensor, uint64_t row_begin,
                                                  uint64_t rows);

// Reads a committed checkpoint by logical tensor and row range. So a checkpoint of any layout can
// be restored onto any other. An increment is read with its bases, as if it had all rows.
// Thread-safe.
class CheckpointReader {
 public:
  struct Options {
    bool verify_checksums = true;        // reads every file once
    std::optional<uint64_t> after_step;  // only those of checkpoints after this step
  };

  // `path`: manifest.json or its directory. Errors: NotFound; DataLoss that names the file and the
  // reason: a wrong checksum, rows that are missing or stored twice, a slot of another shape, a
  // base that is missing.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(const std::string& path,
                                                                const Options& options);
  ~CheckpointReader();

  const v1::Manifest& manifest() const { return *manifest_; }
  // By (variable, slot).
  const std::map<std::pair<std::string, std::string>, LogicalTensor>& tensors() const {
    return tensors_;
  }
  // Null if the checkpoint has no such tensor.
  const LogicalTensor* Find(const std::string& variable, const std::string& slot) const;
  // The slots stored beside a variable, sorted.
  std::vector<std::string> Slots(const std::string& variable) const;

  // Reads rows [row_begin, row_begin + rows) into `out`, which has exactly their size. Errors:
  // NotFound (no such tensor), InvalidArgument (another dtype or row size), OutOfRange.
  absl::Status ReadRows(const std::string& variable, const std::string& slot, DType dtype,
                        uint64_t row_begin, uint64_t rows, std::span<uint8_t> out) const;
  // The same for rows of a shard of a variable that is partitioned by hash now, from `first` on.
  absl::Status ReadHashedRows(const std::string& variable, const std::string& slot, DType dtype,
                              const HashedRows& hashed, HashedRows::Place first, uint64_t rows,
                              std::span<uint8_t> out) const;
  // Gives those of rows [row_begin, row_begin + rows) of a table without bounds that `keys_slot`
  // has the keys of to `add`(rows from row_begin on, their items in these slots; "": the values),
  // ascending, in pieces. Errors: NotFound (no such
  // slot), DataLoss (keys that do not ascend by their rows or lie outside of their piece); those of
  // `add`.
  using RowAdder = absl::FunctionRef<absl::Status(std::span<const int64_t>,
                                                  std::span<const std::span<const uint8_t>>)>;
  absl::Status ReadTable(const std::string& variable, const std::string& keys_slot,
                         std::span<const std::string> slots, uint64_t row_begin, uint64_t rows,
                         RowAdder add) const;
  // The number of rows of a table without bounds that exist. For an increment, it reads all keys.
  // Errors: those of ReadTable.
  absl::StatusOr<uint64_t> TableSize(const std::string& variable) const;
  // The whole logical tensor.
  absl::StatusOr<Tensor> Read(const std::string& variable, const std::string& slot) const;

  // The checkpoint that an increment changes. Null: this one has all rows.
  const CheckpointReader* base() const { return base_.get(); }
  // An increment: gives the rows of a variable that it changes, with their values, to `changed`,
  // and adds those of a table that it removes to `removed`, ascending. Returns false, and reads
  // nothing, if the checkpoint has all rows of some piece. Errors: DataLoss (rows out of order).
  absl::StatusOr<bool> ReadChanges(const std::string& variable, RowAdder changed,
                                   std::vector<int64_t>* removed) const;

 private:
  CheckpointReader();
  // The tensor of ReadRows. Errors: those of ReadRows.
  absl::StatusOr<const LogicalTensor*> FindRows(const std::string& variable,
                                                const std::string& slot) const;
  // Reads rows of the pieces.
  absl::Status ReadStored(const LogicalTensor& tensor, uint64_t row_begin, uint64_t rows,
                          std::span<uint8_t> out) const;
  absl::Status AddFile(const std::string& path);
  // The names of rows in a tensor of a piece: their numbers, or the keys of a table.
  absl::StatusOr<int64_t> RowIn(const StoredPiece& piece, const TensorInfo& names,
                                uint64_t index) const;
  // The index of the first row from `row` on.
  absl::StatusOr<uint64_t> IndexOf(const StoredPiece& piece, const TensorInfo& names,
                                   uint64_t row) const;
  // Reads rows [first, first + count) of these names, which must ascend inside of the piece.
  absl::Status ReadNames(const StoredPiece& piece, const TensorInfo& names, uint64_t first,
                         uint64_t count, std::vector<int64_t>* rows) const;
  // Puts the changed rows of [row_begin, row_end) in their places in `out`.
  absl::Status Patch(const StoredPiece& piece, uint64_t row_bytes, uint64_t row_begin,
                     uint64_t row_end, std::span<uint8_t> out) const;
  // Rows [row_begin, row_end) of a table's piece: of its keys and, beside them, its tensors. `add`
  // gets rows of the variable.
  absl::Status ReadTablePiece(const StoredPiece& keys, std::span<const StoredPiece> parts,
                              uint64_t row_begin, uint64_t row_end, RowAdder add) const;
  // The same for a piece with changes, which are put into the rows of the base.
  absl::Status MergeTablePiece(const std::string& variable, std::span<const std::string> slots,
                               const StoredPiece& keys, std::span<const StoredPiece> parts,
                               uint64_t row_begin, uint64_t row_end, RowAdder add) const;
  absl::Status ReadTableRows(const std::string& variable, const std::string& keys_slot,
                             std::span<const std::string> slots, uint64_t row_begin,
                             uint64_t row_end, RowAdder add) const;
  absl::Status Complete();
  absl::Status CompareWithBase() const;

  std::unique_ptr<v1::Manifest> manifest_;
  std::vector<std::unique_ptr<SafetensorsReader>> files_;
  std::map<std::pair<std::string, std::string>, LogicalTensor> tensors_;
  std::unique_ptr<CheckpointReader> base_;  // null: the checkpoint has all rows
};

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_CHECKPOINT_READER_H_
