#ifndef COHORT_COMMON_DATA_TEXT_TABLE_H_
#define COHORT_COMMON_DATA_TEXT_TABLE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/data/records/record_field.h"
#include "common/data/table.h"

namespace cohort {

// A cell that is a list, `a|b|c`. An empty cell is an empty list.
struct ListFormat {
  char separator = '|';
  RecordField field;  // its length, and what fills a shorter list
};

// What the text of a cell means.
struct CellFormat {
  char decimal = '.';                       // before the fraction of a number
  std::optional<double> missing;            // the number of an empty cell; none: it is not a number
  std::vector<std::string> na_values;       // cells that count as empty
  std::map<std::string, ListFormat> lists;  // by column
};

// A table whose records are lines of text files with the same columns. A column is words if a
// transform uses them, else numbers if it can be.
class TextTable {
 public:
  TextTable(CellFormat format, ColumnUse use, const RowRange& range);
  ~TextTable();

  // Begins a file with these columns. Errors: DataLoss for names that are not UTF-8, for equal
  // ones, and for other columns than those of the first file. InvalidArgument if a list is none of
  // them.
  absl::Status Begin(std::string_view file, std::span<const std::string> names);
  // The names of the columns; none before the first file.
  std::vector<std::string> names() const;
  // Adds a record of the file, which has a cell for each column. Errors: DataLoss for a cell that
  // must be a number and is not,
  // and for a list that does not fit.
  absl::Status Add(std::span<const std::string_view> cells, uint64_t line);
  // Ends the file. Errors: DataLoss if it has no records.
  absl::Status End();
  // Errors: those of ClampRange.
  absl::StatusOr<Table> Finish();

 private:
  class CellColumn;
  struct File;

  const CellFormat format_;
  const ColumnUse use_;
  const RowRange range_;
  std::string first_file_;
  std::vector<CellColumn> columns_;
  std::vector<File> files_;  // those with records that are used, and the one that has begun
  uint64_t records_ = 0, used_ = 0;
  uint64_t before_ = 0;  // records of earlier files
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_TEXT_TABLE_H_
