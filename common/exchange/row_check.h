#ifndef COHORT_COMMON_EXCHANGE_ROW_CHECK_H_
#define COHORT_COMMON_EXCHANGE_ROW_CHECK_H_

#include <cstdint>
#include <string_view>

#include "common/base/status.h"

namespace cohort {

// The error of a step that names a row which the variable does not have.
inline absl::Status RowBeyondVariable(int64_t row, std::string_view variable, int64_t rows) {
  return InvalidArgument(
      "row {} of variable '{}', which has {} rows: the data has ids beyond the table (its "
      "input_dim)",
      row, variable, rows);
}

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_ROW_CHECK_H_
