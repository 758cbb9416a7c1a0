#ifndef COHORT_COMMON_DATA_PARQUET_PARQUET_FILES_H_
#define COHORT_COMMON_DATA_PARQUET_PARQUET_FILES_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/data/input_file.h"
#include "common/data/record_source.h"
#include "common/data/records/record_field.h"

namespace cohort {

struct ParquetOptions {
  std::vector<std::string> columns;         // none: all that can be read
  std::optional<double> missing;            // stands for null among numbers; none: null is an error
  std::optional<std::string> missing_word;  // among words
  std::map<std::string, RecordField> lists;  // columns of lists of different lengths
  uint64_t cache_bytes = 0;                  // the most of decoded row groups
};

// Opens Parquet files as one list of records. The block of random access is the row group: one is
// decoded when a record of it is read, and the latest ones are kept. Numbers become the dtype that
// holds them; dates are days since 1970, and times, timestamps and durations are seconds, in
// float64. Text is words. A list has the length that `lists` names, or that of the first row.
// Errors: those of FileBytes; DataLoss for a damaged file, with the row group; InvalidArgument for
// columns that are not there, or differ between files. Without Arrow (cmake -DCOHORT_ARROW_ROOT) it
// returns Unimplemented.
absl::StatusOr<std::shared_ptr<const RecordSource>> OpenParquetFiles(
    const std::vector<InputFile>& files, const ParquetOptions& parquet, const DataOptions& options);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_PARQUET_PARQUET_FILES_H_
