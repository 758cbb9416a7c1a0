#include "common/data/text_table.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/csv_reader.h"
#include "common/data/records/lines_of_records.h"
#include "common/data/word_codes.h"

namespace cohort {
namespace {

constexpr std::string_view kNotThere[] = {"nan", "NaN", "NAN", "NA", "N/A", "null", "NULL", "None"};
constexpr std::string_view kTruths[] = {"true", "True", "TRUE", "false", "False", "FALSE"};

}  // namespace

// Takes the cells of one column, row by row, as text or as numbers.
class TextTable::CellColumn {
 public:
  enum class Use { kText, kNumbers, kNumbersIfTheyAre };

  CellColumn(std::string name, Use use, const CellFormat& format)
      : name_(std::move(name)), use_(use), format_(format) {
    const auto list = format.lists.find(name_);
    if (list != format.lists.end()) list_ = &list->second;
  }

  const std::string& name() const { return name_; }

  // Errors: DataLoss if a cell must be a number and is not, or a list does not fit.
  absl::Status Add(std::string_view cell, uint64_t line, std::string_view file) {
    if (!not_a_number_.empty()) return absl::OkStatus();
    const absl::Status added = list_ == nullptr ? AddCell(cell) : AddList(cell);
    if (added.ok()) return added;
    const absl::Status why = Annotate(
        added, fmt::format("{}: line {}: column \"{}\"", file, line, PrintableLine(name_)));
    // A list that does not fit is no matter of words.
    if (use_ == Use::kNumbers || list_ != nullptr) return why;
    not_a_number_ = std::string(why.message());
    integers_ = {};
    numbers_ = {};
    return absl::OkStatus();
  }

  Column Finish() {
    Column column;
    column.name = name_;
    if (list_ != nullptr) column.dims = list_->field.type.dims;
    if (use_ == Use::kText) {
      Column found = words_.Finish();
      column.codes = std::move(found.codes);
      column.words = std::move(found.words);
      return column;
    }
    column.not_a_number = not_a_number_;
    if (!not_a_number_.empty()) return column;
    const bool integers = numbers_.empty();
    column.stored = integers ? DType::kInt64 : DType::kFloat64;
    column.dtype = DType::kFloat32;
    column.open_dtype = true;
    column.values = std::make_shared<const TableVector<uint8_t>>(
        integers ? std::move(integers_).TakeBytes() : std::move(numbers_).TakeBytes());
    return column;
  }

 private:
  absl::Status AddCell(std::string_view cell) {
    if (use_ == Use::kText) {
      words_.Add(cell);
      return absl::OkStatus();
    }
    if (format_.missing.has_value() && IsMissing(cell)) {
      AddValue(*format_.missing);
      return absl::OkStatus();
    }
    if (numbers_.empty()) {
      int64_t integer = 0;
      if (ParseInteger(cell, &integer)) {
        integers_.push_back(integer);
        return absl::OkStatus();
      }
    }
    double value = 0;
    if (ParseDecimal(cell, &value)) {
      AddNumber(value);
      return absl::OkStatus();
    }
    std::string why = fmt::format("\"{}\" is not a number", PrintableLine(cell));
    if (cell.empty()) why += "; `missing: 0` of the source makes numbers of empty cells";
    if (std::ranges::count(kNotThere, cell) > 0) {
      why += fmt::format("; `na_values: [{}]` and `missing: 0` of the source make 0 of it", cell);
    }
    if (std::ranges::count(kTruths, cell) > 0) {
      why += fmt::format("; a transform with `equals: \"{}\"` makes numbers of it", cell);
    }
    return DataLoss("{}", why);
  }

  // Adds as many elements as the list has by its format.
  absl::Status AddList(std::string_view cell) {
    const RecordField& field = list_->field;
    std::vector<std::string_view> elements;
    for (size_t at = 0; !cell.empty() && at <= cell.size();) {
      const size_t end = std::min(cell.find(list_->separator, at), cell.size());
      elements.push_back(cell.substr(at, end - at));
      at = end + 1;
    }
    COHORT_ASSIGN_OR_RETURN(const size_t used, field.UsedOf(elements.size()));
    for (size_t i = 0; i < used; ++i) COHORT_RETURN_IF_ERROR(AddCell(elements[i]));
    for (size_t i = used; i < field.elements(); ++i) {
      if (use_ != Use::kText) {
        AddValue(field.padding.value_or(0));
      } else {
        words_.Add(field.word_padding ? *field.word_padding
                                      : fmt::format("{}", field.padding.value_or(0)));
      }
    }
    return absl::OkStatus();
  }

  // Adds what stands for a number that is not there.
  void AddValue(double value) {
    const bool is_integer = value == std::floor(value) && value >= -0x1p63 && value < 0x1p63;
    if (is_integer && numbers_.empty()) {
      integers_.push_back(static_cast<int64_t>(value));
    } else {
      AddNumber(value);
    }
  }

  bool IsMissing(std::string_view cell) const {
    return cell.empty() || std::ranges::find(format_.na_values, cell) != format_.na_values.end();
  }
  // With a decimal comma, a point is not part of a number.
  bool ParseDecimal(std::string_view cell, double* value) const {
    if (format_.decimal == '.') return ParseNumber(cell, value);
    if (cell.find('.') != std::string_view::npos) return false;
    std::string number(cell);
    std::ranges::replace(number, format_.decimal, '.');
    return ParseNumber(number, value);
  }
  void AddNumber(double value) {
    if (!integers_.empty()) {
      for (const int64_t integer : integers_) numbers_.push_back(static_cast<double>(integer));
      integers_ = {};
    }
    numbers_.push_back(value);
  }

  const std::string name_;
  const Use use_;
  const CellFormat& format_;
  const ListFormat* list_ = nullptr;  // null: a cell is one value
  WordCodes words_;
  // All numbers so far: integers until the first cell that is another number.
  TableVector<int64_t> integers_;
  TableVector<double> numbers_;
  std::string not_a_number_;
};

struct TextTable::File {
  File(std::string file, uint64_t number) : name(std::move(file)), first(number) {}

  std::string name;
  uint64_t first;  // the number of its first record among those that are used
  LinesOfRecords lines;
};

TextTable::TextTable(CellFormat format, ColumnUse use, const RowRange& range)
    : format_(std::move(format)), use_(std::move(use)), range_(range) {}
TextTable::~TextTable() = default;

std::vector<std::string> TextTable::names() const {
  std::vector<std::string> names;
  for (const CellColumn& column : columns_) names.push_back(column.name());
  return names;
}

absl::Status TextTable::Begin(std::string_view file, std::span<const std::string> names) {
  before_ = records_;
  files_.emplace_back(std::string(file), used_);
  if (!columns_.empty()) {
    const auto same = [](const CellColumn& c, const std::string& name) { return c.name() == name; };
    if (std::ranges::equal(columns_, names, same)) return absl::OkStatus();
    return DataLoss("{}: line 1: the columns differ from those of {}", file, first_file_);
  }
  first_file_ = std::string(file);
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (!IsUtf8(name)) {
      return DataLoss(
          "{}: line 1: the name of column {}, \"{}\", is not UTF-8: save the file as UTF-8", file,
          seen.size() + 1, PrintableLine(name));
    }
    if (!seen.insert(name).second) {
      return DataLoss("{}: two columns are named \"{}\"", file, PrintableLine(name));
    }
    // A column that is used both ways is kept as text; its words are parsed as numbers later.
    CellColumn::Use use = CellColumn::Use::kNumbersIfTheyAre;
    if (use_.numbers.contains(name)) use = CellColumn::Use::kNumbers;
    const auto list = format_.lists.find(name);
    const bool is_words = list != format_.lists.end() && list->second.field.is_words();
    if (is_words || use_.text.contains(name)) use = CellColumn::Use::kText;
    columns_.emplace_back(name, use, format_);
  }
  for (const auto& [name, list] : format_.lists) {
    if (seen.contains(name)) continue;
    return InvalidArgument("{}: has no column \"{}\" of `lists`; it has {}", file,
                           PrintableLine(name),
                           PrintableLine(fmt::format("{}", fmt::join(seen, ", "))));
  }
  return absl::OkStatus();
}

absl::Status TextTable::Add(std::span<const std::string_view> cells, uint64_t line) {
  File& file = files_.back();
  if (cells.size() != columns_.size()) {
    return DataLoss("{}: line {}: has {} fields, {} are expected", file.name, line, cells.size(),
                    columns_.size());
  }
  const uint64_t record = records_++;
  if (record < range_.skip || (range_.take > 0 && record - range_.skip >= range_.take)) {
    return absl::OkStatus();
  }
  ++used_;
  file.lines.Add(line);
  for (size_t i = 0; i < cells.size(); ++i) {
    COHORT_RETURN_IF_ERROR(columns_[i].Add(cells[i], line, file.name));
  }
  return absl::OkStatus();
}

absl::Status TextTable::End() {
  if (records_ == before_) return DataLoss("{}: has no records", files_.back().name);
  if (files_.back().first == used_) files_.pop_back();
  return absl::OkStatus();
}

absl::StatusOr<Table> TextTable::Finish() {
  COHORT_ASSIGN_OR_RETURN(const RowRange rows, ClampRange(range_, records_));
  Table table;
  table.records = rows.take;
  for (CellColumn& column : columns_) table.columns.push_back(column.Finish());
  table.place = [files = std::move(files_)](uint64_t record, std::string_view) {
    const auto next = std::upper_bound(files.begin(), files.end(), record,
                                       [](uint64_t r, const File& f) { return r < f.first; });
    const File& file = *std::prev(next);
    return fmt::format("{}: line {}", file.name, file.lines.LineOf(record - file.first));
  };
  return table;
}

}  // namespace cohort
