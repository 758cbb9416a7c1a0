#include "common/data/words.h"

#include <algorithm>
#include <cstring>

#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/csv_reader.h"

namespace cohort {

Column MapWords(const Column& column, std::span<const double> number_of_word, DType stored,
                DType dtype) {
  const size_t size = SizeOf(stored);
  std::vector<uint8_t> numbers(number_of_word.size() * size);
  ConvertNumbers(DType::kFloat64, number_of_word.data(), stored, numbers.data(),
                 number_of_word.size());
  std::vector<uint8_t> values(column.codes->size() * size);
  for (size_t i = 0; i < column.codes->size(); ++i) {
    std::memcpy(values.data() + i * size, numbers.data() + (*column.codes)[i] * size, size);
  }
  return {.name = column.name,
          .dims = column.dims,
          .stored = stored,
          .values = std::make_shared<const std::vector<uint8_t>>(std::move(values)),
          .dtype = dtype};
}

absl::StatusOr<Column> NumbersOf(const Column& column) {
  if (!column.is_text()) return column;
  std::vector<double> numbers;
  for (const std::string& word : *column.words) {
    if (!ParseNumber(word, &numbers.emplace_back())) {
      return InvalidArgument("column \"{}\" holds text, \"{}\": give it a lookup or equals",
                             column.name, word);
    }
  }
  return MapWords(column, numbers, DType::kFloat64, DType::kFloat32);
}

Column StackWords(std::span<const Column> parts, Dims dims) {
  std::vector<std::string> words;
  for (const Column& part : parts) {
    words.insert(words.end(), part.words->begin(), part.words->end());
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  std::vector<uint32_t> codes(parts.size() * parts[0].codes->size());
  for (size_t p = 0; p < parts.size(); ++p) {
    std::vector<uint32_t> code_of;
    for (const std::string& word : *parts[p].words) {
      const auto found = std::lower_bound(words.begin(), words.end(), word);
      code_of.push_back(static_cast<uint32_t>(found - words.begin()));
    }
    for (size_t i = 0; i < parts[p].codes->size(); ++i) {
      codes[i * parts.size() + p] = code_of[(*parts[p].codes)[i]];
    }
  }
  return {.dims = std::move(dims),
          .codes = std::make_shared<const std::vector<uint32_t>>(std::move(codes)),
          .words = std::make_shared<const std::vector<std::string>>(std::move(words))};
}

}  // namespace cohort
