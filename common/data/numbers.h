#ifndef COHORT_COMMON_DATA_NUMBERS_H_
#define COHORT_COMMON_DATA_NUMBERS_H_

#include <absl/status/statusor.h>

#include <cstring>
#include <memory>
#include <vector>

#include "common/data/table.h"

namespace cohort {

// Columns in memory as numbers, for transforms.

// Returns one value as a double.
double NumberAt(DType dtype, const void* values, size_t i);
// Returns one element of a number column, scaled as in a batch.
double NumberAt(const Column& column, size_t i);

// Returns a column of numbers as it is, and parses the words of a text column. Errors:
// InvalidArgument (a word is not a number).
absl::StatusOr<Column> NumbersOf(const Column& column);

template <typename T>
std::shared_ptr<const std::vector<uint8_t>> BytesOf(const std::vector<T>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
}

// A column of these values, which are of the dtype `stored`; batches have them as `dtype`.
template <typename T>
Column ColumnOf(const std::vector<T>& values, DType stored, DType dtype, const Dims& dims) {
  Column column;
  column.dims = dims;
  column.values = BytesOf(values);
  column.stored = stored;
  column.dtype = dtype;
  return column;
}

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_NUMBERS_H_
