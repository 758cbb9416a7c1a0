#ifndef COHORT_COMMON_DATA_RECORDS_TF_RECORD_FILE_H_
#define COHORT_COMMON_DATA_RECORDS_TF_RECORD_FILE_H_

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/data/file_bytes.h"
#include "common/data/table_vector.h"

namespace cohort {

// A TFRecord file (tensorflow/core/lib/io/record_writer.h):
//
//   repeated { uint64 length, uint32 masked crc32c of the length,
//              bytes,         uint32 masked crc32c of the bytes }    little-endian
//
// Opening it reads the lengths alone. Records are read by index. Thread-safe.
class TfRecordFile {
 public:
  // A packed file (gzip, zstd) is inflated first. Errors: those of FileBytes and InflateFile;
  // DataLoss for a damaged length and a truncated record, after which no record can be found.
  // `torn` (may be null) receives this DataLoss instead, and the file then has the records before
  // it.
  static absl::StatusOr<TfRecordFile> Open(const InputFile& file, const DataOptions& options,
                                           absl::Status* torn);

  uint64_t records() const { return offsets_.size(); }
  // Where the frame of a record ends.
  uint64_t EndOf(uint64_t record) const {
    return record + 1 < offsets_.size() ? offsets_[record + 1] : end_;
  }
  const FileBytes& file() const { return file_; }

  // How many records, from `first` on and at most `most`, ReadPiece should read at once: one, or
  // several that are small.
  uint64_t CountOfPiece(uint64_t first, uint64_t most) const;
  // Reads records [first, first + count) with their frames. The memory of `piece` is reused.
  absl::Status ReadPiece(uint64_t first, uint64_t count, std::string* piece) const;
  // Returns a record of a piece that begins with record `first`, and compares its checksum. Errors:
  // DataLoss with the path and the record.
  absl::StatusOr<std::string_view> RecordOf(std::string_view piece, uint64_t first,
                                            uint64_t record) const;
  // Reads one record into memory that is reused. Errors: those of ReadPiece and RecordOf.
  absl::StatusOr<std::string_view> Read(uint64_t record, std::string* piece) const;

 private:
  explicit TfRecordFile(FileBytes file) : file_(std::move(file)) {}
  absl::Status FindRecords();
  // Returns the length of the next record. `header`: the bytes from `offset` on.
  absl::StatusOr<uint64_t> LengthOf(uint64_t offset, std::string_view header) const;

  FileBytes file_;
  TableVector<uint64_t> offsets_;  // where the lengths start
  uint64_t end_ = 0;               // where the last record ends
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_RECORDS_TF_RECORD_FILE_H_
