#ifndef COHORT_COMMON_DATA_SOURCES_DECODERS_H_
#define COHORT_COMMON_DATA_SOURCES_DECODERS_H_

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/data/table.h"
#include "common/data/text_table.h"
#include "common/schema/class_registry.h"

namespace cohort {

// The decoders of sources, without file access. `name` is for messages.

// The IDX format of MNIST (http://yann.lecun.com/exdb/mnist, "File formats"), big-endian: 0, 0,
// type, number of dimensions, one uint32 per dimension, the elements. int8 and int16 become int32.
struct IdxArray {
  DType dtype = DType::kInvalid;
  Dims dims;
  TableVector<uint8_t> values;  // in this machine's byte order
};
absl::StatusOr<IdxArray> ParseIdx(std::string_view bytes, std::string_view name);

// CSV (RFC 4180: quoted fields, "" within them, CR LF or LF). Drops blanks around a field that is
// not quoted, and skips empty lines.
struct CsvFormat {
  char delimiter = ',';
  bool header = true;
  std::vector<std::string> columns;  // the names, if there is no header
  CellFormat cells;
};
absl::StatusOr<Table> ParseCsv(std::string_view text, const CsvFormat& format, const ColumnUse& use,
                               const RowRange& range, std::string_view name);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_SOURCES_DECODERS_H_
