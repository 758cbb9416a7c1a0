#ifndef COHORT_COMMON_DATA_COLUMN_CHECK_H_
#define COHORT_COMMON_DATA_COLUMN_CHECK_H_

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/data/feature_type.h"

namespace cohort {

namespace v1 {
class ColumnRead;
class DatasetSpec;
}  // namespace v1

struct Column;
struct Table;

// What the numbers of a column must be, because of what reads them.
struct ColumnCheck {
  bool integers = false;
  int64_t below = 0;               // integers lie in [0, below); 0: any
  bool finite = false;             // a label
  std::string reader;              // what needs integers: layer "embedding"
  std::optional<int64_t> padding;  // stands for no number

  bool checks(DType dtype) const {
    return IsFloating(dtype) ? integers || finite : integers && below > 0;
  }
};

// Names the place of record i, of those that are checked: "a.csv: line 3".
using PlaceOfRecord = absl::FunctionRef<std::string(size_t record)>;

// Checks the numbers of some records of a column. Errors: DataLoss that names the place of the
// first number that is wrong, and the column.
absl::Status CheckNumbers(const ColumnCheck& check, const FeatureType& column, const void* values,
                          size_t records, PlaceOfRecord place);

// Checks that each record has as many weights as ids: both lists (list_padding.h) end at the same
// place. Errors: DataLoss that names the place of the first record with others, and the column.
absl::Status CheckLengths(const FeatureType& ids, const void* id_values, const FeatureType& weights,
                          const void* weight_values, size_t records, PlaceOfRecord place);

// Returns what the model reads from a column of the table (DatasetSpec::reads), or null.
const v1::ColumnRead* FindRead(const v1::DatasetSpec& spec, const Table& table,
                               const std::string& column);
// Returns the check for a column that `read` (may be null) reads; `is_label`: it is a label.
ColumnCheck CheckOf(const v1::ColumnRead* read, bool is_label);

// Gives a column in memory the dtype in which the model reads it, unless the job has given it one,
// and checks its numbers. Errors: those of CheckNumbers.
absl::Status ReadColumnAs(const v1::ColumnRead* read, const ColumnCheck& check, const Table& table,
                          Column* column);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_COLUMN_CHECK_H_
