#include "common/data/numbers.h"

#include <algorithm>
#include <cstring>

#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/csv_reader.h"

namespace cohort {

double NumberAt(DType dtype, const void* values, size_t i) {
  double number = 0;
  ConvertNumbers(dtype, static_cast<const uint8_t*>(values) + i * SizeOf(dtype), DType::kFloat64,
                 &number, 1);
  return number;
}

double NumberAt(const Column& column, size_t i) {
  return NumberAt(column.stored, column.values->data(), i) * column.scale + column.offset;
}

absl::StatusOr<Column> NumbersOf(const Column& column) {
  if (!column.is_text()) return column;
  if (!column.not_a_number.empty()) return InvalidArgument("{}", column.not_a_number);
  std::vector<double> of_word;
  for (const std::string& word : *column.words) {
    double value = 0;
    if (!ParseNumber(word, &value)) {
      return InvalidArgument("column \"{}\" holds text, \"{}\": give it a lookup or equals",
                             column.name, word);
    }
    of_word.push_back(value);
  }
  std::vector<double> values;
  values.reserve(column.codes->size());
  for (const uint32_t code : *column.codes) values.push_back(of_word[code]);
  Column numbers;
  numbers.name = column.name;
  numbers.dims = column.dims;
  numbers.stored = DType::kFloat64;
  numbers.dtype = DType::kFloat32;
  numbers.values = BytesOf(values);
  return numbers;
}

}  // namespace cohort
