#include "common/data/word_columns.h"

#include <utility>
#include <vector>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/word_codes.h"

namespace cohort {

absl::Status AddWordColumns(const RecordSource& source, const RowRange& rows, const ColumnUse& use,
                            Table* table) {
  std::vector<size_t> wanted;
  for (size_t i = 0; i < source.word_columns().size(); ++i) {
    const FeatureType& type = source.word_columns()[i];
    if (use.text.contains(type.name) || use.numbers.contains(type.name)) {
      wanted.push_back(i);
      continue;
    }
    Column& column = table->columns.emplace_back();
    column.name = type.name;
    column.dims = type.dims;
    column.not_a_number = fmt::format(
        "column \"{}\" holds text: give it a lookup or equals, or Hashing if it has ids",
        PrintableLine(type.name));
  }
  for (const auto& [name, why] : source.no_features()) {
    Column& column = table->columns.emplace_back();
    column.name = name;
    column.not_a_number = why;
  }
  if (wanted.empty()) return absl::OkStatus();
  std::vector<WordCodes> codes(wanted.size());
  for (uint64_t i = 0; i < rows.take; ++i) {
    COHORT_RETURN_IF_ERROR(
        Annotate(source.ReadWords(rows.skip + i, wanted,
                                  [&](size_t c, std::string_view word) { codes[c].Add(word); }),
                 fmt::format("record {}", rows.skip + i)));
  }
  for (size_t c = 0; c < wanted.size(); ++c) {
    const FeatureType& type = source.word_columns()[wanted[c]];
    if (codes[c].size() != rows.take * static_cast<uint64_t>(NumElements(type.dims))) {
      return Internal("column \"{}\": the source gave {} words for {} records", type.name,
                      codes[c].size(), rows.take);
    }
    Column& column = table->columns.emplace_back(codes[c].Finish());
    column.name = type.name;
    column.dims = type.dims;
  }
  return absl::OkStatus();
}

}  // namespace cohort
