#include "common/data/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/csv_reader.h"

namespace cohort {

namespace {

// `number_of_word` has numbers of the dtype `stored`, `of_each` for each word.
Column MapWordsTo(const Column& column, const void* number_of_word, DType stored, DType dtype,
                  size_t of_each = 1) {
  const size_t size = SizeOf(stored) * of_each;
  const auto* const numbers = static_cast<const uint8_t*>(number_of_word);
  TableVector<uint8_t> values(column.codes->size() * size);
  for (size_t i = 0; i < column.codes->size(); ++i) {
    std::memcpy(values.data() + i * size, numbers + (*column.codes)[i] * size, size);
  }
  return {.name = column.name,
          .dims = column.dims,
          .stored = stored,
          .values = std::make_shared<const TableVector<uint8_t>>(std::move(values)),
          .dtype = dtype};
}

}  // namespace

Column MapWords(const Column& column, std::span<const double> number_of_word, DType stored,
                DType dtype) {
  std::vector<uint8_t> numbers(number_of_word.size() * SizeOf(stored));
  ConvertNumbers(DType::kFloat64, number_of_word.data(), stored, numbers.data(),
                 number_of_word.size());
  const size_t words = std::max<size_t>(column.words->size(), 1);
  return MapWordsTo(column, numbers.data(), stored, dtype, number_of_word.size() / words);
}

Column WordsOf(const Column& column) {
  if (column.is_text()) return column;
  TableVector<int64_t> numbers(column.values->size() / SizeOf(column.stored));
  ConvertNumbers(column.stored, column.values->data(), DType::kInt64, numbers.data(),
                 numbers.size());
  std::unordered_map<int64_t, uint32_t> code_of;
  std::vector<std::string> words;
  TableVector<uint32_t> codes;
  for (const int64_t number : numbers) {
    const auto [found, added] = code_of.emplace(number, static_cast<uint32_t>(words.size()));
    if (added) words.push_back(fmt::format("{}", number));
    codes.push_back(found->second);
  }
  return {.name = column.name,
          .dims = column.dims,
          .codes = std::make_shared<const TableVector<uint32_t>>(std::move(codes)),
          .words = std::make_shared<const std::vector<std::string>>(std::move(words))};
}

Column NumbersColumn(std::span<const double> numbers, Dims dims, DType dtype) {
  TableVector<uint8_t> values(numbers.size() * SizeOf(dtype));
  ConvertNumbers(DType::kFloat64, numbers.data(), dtype, values.data(), numbers.size());
  return {.dims = std::move(dims),
          .stored = dtype,
          .values = std::make_shared<const TableVector<uint8_t>>(std::move(values)),
          .dtype = dtype};
}

absl::StatusOr<Column> NumbersOf(const Column& column) {
  if (!column.is_text()) return column;
  const std::vector<std::string>& words = *column.words;
  std::vector<int64_t> integers(words.size());
  size_t parsed = 0;
  while (parsed < words.size() && ParseInteger(words[parsed], &integers[parsed])) ++parsed;
  if (parsed == words.size()) {
    Column found = MapWordsTo(column, integers.data(), DType::kInt64, DType::kFloat32);
    found.open_dtype = true;
    return found;
  }
  std::vector<double> numbers;
  for (const std::string& word : *column.words) {
    if (!ParseNumber(word, &numbers.emplace_back())) {
      return InvalidArgument("column \"{}\" holds text, \"{}\": give it a lookup or equals",
                             column.name, word);
    }
  }
  Column found = MapWords(column, numbers, DType::kFloat64, DType::kFloat32);
  found.open_dtype = true;
  return found;
}

Column StackWords(std::span<const Column> parts, Dims dims) {
  std::vector<std::string> words;
  for (const Column& part : parts) {
    words.insert(words.end(), part.words->begin(), part.words->end());
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  TableVector<uint32_t> codes(parts.size() * parts[0].codes->size());
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
          .codes = std::make_shared<const TableVector<uint32_t>>(std::move(codes)),
          .words = std::make_shared<const std::vector<std::string>>(std::move(words))};
}

}  // namespace cohort
