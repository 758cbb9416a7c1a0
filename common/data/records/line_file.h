#ifndef COHORT_COMMON_DATA_RECORDS_LINE_FILE_H_
#define COHORT_COMMON_DATA_RECORDS_LINE_FILE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/data/file_bytes.h"
#include "common/data/records/lines_of_records.h"
#include "common/data/table_vector.h"

namespace cohort {

// A text file with a record on each line. Empty lines, and those that begin with `comment`, are no
// records. Opening it finds where the lines start; records are read by index. Thread-safe.
class LineFile {
 public:
  // `comment`: '\0' for none. A packed file (gzip, zstd) is inflated first. Errors: those of
  // FileBytes and InflateFile; DataLoss for a file that is UTF-16.
  static absl::StatusOr<LineFile> Open(const InputFile& file, const DataOptions& options,
                                       char comment);

  uint64_t records() const { return offsets_.size(); }
  // Where the text of a record ends, with what lies before the next one.
  uint64_t EndOf(uint64_t record) const {
    return record + 1 < offsets_.size() ? offsets_[record + 1] : file_.size();
  }
  const FileBytes& file() const { return file_; }

  // Reads the line of a record, without its end, into memory that is reused. Errors: DataLoss.
  absl::Status Read(uint64_t record, std::string* line) const;
  // "a.jsonl: line 7".
  std::string Place(uint64_t record) const;

 private:
  explicit LineFile(FileBytes file) : file_(std::move(file)) {}
  absl::Status FindLines(char comment);
  void AddLine(uint64_t offset, uint64_t line);

  FileBytes file_;
  TableVector<uint64_t> offsets_;
  LinesOfRecords lines_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_RECORDS_LINE_FILE_H_
