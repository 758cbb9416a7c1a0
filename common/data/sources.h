#ifndef COHORT_COMMON_DATA_SOURCES_H_
#define COHORT_COMMON_DATA_SOURCES_H_

#include <absl/status/statusor.h>

#include <set>
#include <string>
#include <string_view>

#include "common/data/dataset.h"
#include "common/data/table.h"

namespace cohort::v1 {
class CsvSource;
class GeneratorSource;
class IdxSource;
}  // namespace cohort::v1

namespace cohort {

// Narrows a range to the existing records. Errors: InvalidArgument if the range exceeds them or
// becomes empty.
absl::StatusOr<RowRange> ClampRange(const RowRange& range, uint64_t records);

// Generates records from (seed, index). "recommender" is the dataset of TensorFlow's parameter
// server tutorial: three distinct strings out of seven; the label is "yes" if "avenger" is among
// them, else "no".
absl::StatusOr<Table> OpenGenerator(const v1::GeneratorSource& source, const RowRange& range);

// Reads images and labels in the IDX format of MNIST (http://yann.lecun.com/exdb/mnist, "File
// formats"), big-endian: 0, 0, type, number of dimensions, one uint32 per dimension, the elements.
// int8 and int16 become int32.
absl::StatusOr<Table> OpenIdx(const v1::IdxSource& source, const RowRange& range,
                              const DataOptions& options);

// How the columns of a CSV file are used.
struct CsvUse {
  std::set<std::string> text;     // columns of words
  std::set<std::string> numbers;  // columns that must be numbers. Others become numbers if possible
};

// Reads a CSV file (RFC 4180: quoted fields, "" within them, CR LF or LF). Drops blanks around a
// field that is not quoted, and skips empty lines.
absl::StatusOr<Table> OpenCsv(const v1::CsvSource& source, const CsvUse& use, const RowRange& range,
                              const DataOptions& options);

// The decoders, without file access. `name` is for messages.
struct IdxArray {
  DType dtype = DType::kInvalid;
  Dims dims;
  std::vector<uint8_t> values;  // in this machine's byte order
};
absl::StatusOr<IdxArray> ParseIdx(std::string_view bytes, std::string_view name);

struct CsvFormat {
  char delimiter = ',';
  bool header = true;
  std::vector<std::string> columns;  // the names, if there is no header
};
absl::StatusOr<Table> ParseCsv(std::string_view text, const CsvFormat& format, const CsvUse& use,
                               const RowRange& range, std::string_view name);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_SOURCES_H_
