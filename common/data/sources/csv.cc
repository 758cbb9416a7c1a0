#include <algorithm>
#include <iterator>
#include <span>
#include <unordered_map>
#include <utility>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/csv_reader.h"
#include "common/data/fingerprint.h"
#include "common/data/input_file.h"
#include "common/data/source_class.h"
#include "common/data/sources/decoders.h"

namespace cohort {
namespace {

// Takes the cells of one column, row by row, as text or as numbers.
class ColumnBuilder {
 public:
  enum class Use { kText, kNumbers, kNumbersIfTheyAre };

  ColumnBuilder(std::string name, Use use) : name_(std::move(name)), use_(use) {}

  // Errors: DataLoss if a cell must be a number and is not.
  absl::Status Add(std::string_view cell, uint64_t line, std::string_view file) {
    if (use_ == Use::kText) {
      const auto [word, added] = codes_of_.try_emplace(std::string(cell), words_.size());
      if (added) words_.push_back(word->first);
      codes_.push_back(word->second);
      return absl::OkStatus();
    }
    if (!not_a_number_.empty()) return absl::OkStatus();
    if (numbers_.empty()) {
      int64_t integer = 0;
      if (ParseInteger(cell, &integer)) {
        integers_.push_back(integer);
        return absl::OkStatus();
      }
    }
    double value = 0;
    if (ParseNumber(cell, &value)) {
      if (!integers_.empty()) {
        numbers_.assign(integers_.begin(), integers_.end());
        integers_ = {};
      }
      numbers_.push_back(value);
      return absl::OkStatus();
    }
    const std::string why = fmt::format("{}: line {}: column \"{}\": \"{}\" is not a number", file,
                                        line, PrintableLine(name_), PrintableLine(cell));
    if (use_ == Use::kNumbers) return DataLoss("{}", why);
    not_a_number_ = why;
    integers_ = {};
    numbers_ = {};
    return absl::OkStatus();
  }

  Column Finish() {
    Column column;
    column.name = name_;
    if (use_ == Use::kText) {
      column.codes = std::make_shared<const std::vector<uint32_t>>(std::move(codes_));
      column.words = std::make_shared<const std::vector<std::string>>(std::move(words_));
      return column;
    }
    column.not_a_number = not_a_number_;
    if (!not_a_number_.empty()) return column;
    const bool integers = numbers_.empty();
    const auto bytes =
        integers ? std::as_bytes(std::span(integers_)) : std::as_bytes(std::span(numbers_));
    const auto* const begin = reinterpret_cast<const uint8_t*>(bytes.data());
    column.stored = integers ? DType::kInt64 : DType::kFloat64;
    column.dtype = DType::kFloat32;
    column.open_dtype = true;
    column.values = std::make_shared<const std::vector<uint8_t>>(begin, begin + bytes.size());
    integers_ = {};
    numbers_ = {};
    return column;
  }

 private:
  const std::string name_;
  const Use use_;
  std::unordered_map<std::string, uint32_t> codes_of_;
  std::vector<std::string> words_;
  std::vector<uint32_t> codes_;
  // All numbers so far: integers until the first cell that is another number.
  std::vector<int64_t> integers_;
  std::vector<double> numbers_;
  std::string not_a_number_;
};

// The line on which each record starts. Most files have a record on each line, so only the others
// are kept.
class LinesOfRecords {
 public:
  void Add(uint64_t line) {
    if (ahead_.empty() || line - records_ != ahead_.back().second) {
      ahead_.emplace_back(records_, line - records_);
    }
    ++records_;
  }
  uint64_t LineOf(uint64_t record) const {
    const auto next =
        std::upper_bound(ahead_.begin(), ahead_.end(), record,
                         [](uint64_t r, const auto& entry) { return r < entry.first; });
    return record + std::prev(next)->second;
  }

 private:
  uint64_t records_ = 0;
  std::vector<std::pair<uint64_t, uint64_t>> ahead_;  // from this record on: line - record
};

ColumnBuilder::Use UseOf(const std::string& name, const ColumnUse& use) {
  // A column that is used both ways is kept as text; its words are parsed as numbers later.
  if (use.text.contains(name)) return ColumnBuilder::Use::kText;
  if (use.numbers.contains(name)) return ColumnBuilder::Use::kNumbers;
  return ColumnBuilder::Use::kNumbersIfTheyAre;
}

absl::StatusOr<std::vector<ColumnBuilder>> MakeBuilders(const std::vector<std::string>& names,
                                                        const ColumnUse& use,
                                                        std::string_view file) {
  std::vector<ColumnBuilder> builders;
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
    builders.emplace_back(name, UseOf(name, use));
  }
  return builders;
}

// Returns the names of the columns: the first record, or the names in the job.
absl::StatusOr<std::vector<std::string>> ReadNames(const CsvFormat& format, std::string_view file,
                                                   CsvReader* reader) {
  if (!format.header) {
    if (format.columns.empty()) {
      return InvalidArgument("{}: a file without a header needs `columns`: their names", file);
    }
    return format.columns;
  }
  if (!format.columns.empty()) {
    return InvalidArgument("{}: `columns` names the columns of files with `no_header: true`", file);
  }
  COHORT_ASSIGN_OR_RETURN(const bool any, reader->Next());
  if (!any) return DataLoss("{}: is empty; a header is expected", file);
  std::vector<std::string> names(reader->fields().begin(), reader->fields().end());
  // As pandas.read_csv names them: `to_csv` writes the index of a frame without a name.
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) names[i] = fmt::format("Unnamed: {}", i);
  }
  return names;
}

}  // namespace

absl::StatusOr<Table> ParseCsv(std::string_view text, const CsvFormat& format, const ColumnUse& use,
                               const RowRange& range, std::string_view name) {
  // A CR within quotes would be text.
  if (text.find_first_of("\n\"") == text.npos && text.find('\r') < text.size() - 1) {
    return DataLoss("{}: the lines end with CR alone: save the file with LF or CR LF", name);
  }
  CsvReader reader(text, format.delimiter, name);
  COHORT_ASSIGN_OR_RETURN(const auto names, ReadNames(format, name, &reader));
  COHORT_ASSIGN_OR_RETURN(auto builders, MakeBuilders(names, use, name));
  uint64_t records = 0;
  LinesOfRecords lines;
  while (true) {
    COHORT_ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) break;
    const auto& fields = reader.fields();
    if (fields.size() != builders.size()) {
      return DataLoss("{}: line {}: has {} fields, {} are expected", name, reader.line(),
                      fields.size(), builders.size());
    }
    const uint64_t record = records++;
    if (record < range.skip || (range.take > 0 && record - range.skip >= range.take)) continue;
    lines.Add(reader.line());
    for (size_t i = 0; i < fields.size(); ++i) {
      COHORT_RETURN_IF_ERROR(builders[i].Add(fields[i], reader.line(), name));
    }
  }
  if (records == 0) return DataLoss("{}: has no records", name);
  COHORT_ASSIGN_OR_RETURN(const RowRange rows, ClampRange(range, records));
  Table table;
  table.records = rows.take;
  for (ColumnBuilder& builder : builders) table.columns.push_back(builder.Finish());
  table.place = [lines = std::move(lines), file = std::string(name)](uint64_t record,
                                                                     std::string_view) {
    return fmt::format("{}: line {}", file, lines.LineOf(record));
  };
  return table;
}

namespace {

absl::Status CheckCsv(const Config& config) {
  const std::string& delimiter = config.String("delimiter");
  if (delimiter.size() != 1 ||
      std::string_view("\"\n\r\0", 4).find(delimiter[0]) != std::string_view::npos) {
    return InvalidArgument(
        "{}: delimiter must be one character that can separate fields, not \"{}\"",
        config.String("path"), PrintableLine(delimiter.substr(0, 60)));
  }
  if (config.Bool("no_header") && config.Strings("columns").empty()) {
    return InvalidArgument("{}: a file without a header needs `columns`, their names",
                           config.String("path"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Table> ReadCsvTable(const Config& config, const SourceContext& context,
                                   const TableRequest& request) {
  const std::string& path = config.String("path");
  CsvFormat format;
  format.header = !config.Bool("no_header");
  format.columns = config.Strings("columns");
  format.delimiter = config.String("delimiter")[0];
  uint32_t crc32 = 0;
  COHORT_ASSIGN_OR_RETURN(const std::string text,
                          ReadInputFile({path, config.String("url"), config.String("sha256")},
                                        context.options, &crc32));
  COHORT_ASSIGN_OR_RETURN(Table table, ParseCsv(text, format, request.use, request.range, path));
  table.files.push_back(MakeFileFingerprint(path, text.size(), crc32));
  return table;
}

}  // namespace

SourceClass CsvSource() {
  return {.schema =
              {.name = "csv",
               .doc = "A CSV file, read into memory. A column is words if a transform looks them "
                      "up, else numbers.",
               .arguments = {String("path",
                                    "A file below `COHORT_DATA_DIR`, or absolute; may be "
                                    "packed with gzip."),
                             Bool("no_header", "True: the first line is data.").Default(false),
                             String("delimiter", "One character.").Default(","),
                             Strings("columns", "Names, if the file has no header.").Optional(),
                             String("url", "Shown in the error if the file is missing.").Optional(),
                             String("sha256", "Hexadecimal; checked if given.").Optional()}},
          .no_record_arguments = {"url", "sha256"},
          .check = CheckCsv,
          .read_table = ReadCsvTable};
}

}  // namespace cohort
