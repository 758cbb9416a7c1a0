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
  const FileBytes& file() const { return file_; }

  // Reads a record, whose memory is reused, and compares its checksum. Errors: DataLoss with the
  // path and the record.
  absl::Status Read(uint64_t record, std::string* bytes) const;

 private:
  explicit TfRecordFile(FileBytes file) : file_(std::move(file)) {}
  absl::Status FindRecords();
  absl::StatusOr<uint64_t> ReadLength(uint64_t offset) const;

  FileBytes file_;
  TableVector<uint64_t> offsets_;  // where the lengths start
  uint64_t end_ = 0;               // where the last record ends
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_RECORDS_TF_RECORD_FILE_H_
