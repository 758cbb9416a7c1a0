#include <zlib.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/csv_reader.h"
#include "common/data/files/contents.h"
#include "common/data/files/file_list.h"
#include "common/data/files/remote_file.h"
#include "common/data/fingerprint.h"
#include "common/data/source_class.h"
#include "common/data/sources/decoders.h"
#include "common/data/text_table.h"

namespace cohort {
namespace {

// What is read of a file at a time.
constexpr uint64_t kCsvPieceBytes = 1 << 20;

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

// Adds the records of a file.
absl::Status AddCsv(CsvReader reader, const CsvFormat& format, std::string_view name,
                    TextTable* table) {
  COHORT_ASSIGN_OR_RETURN(const auto names, ReadNames(format, name, &reader));
  const std::string_view others = format.delimiter == ',' ? ";\t|" : ",;\t|";
  if (const size_t other = names[0].find_first_of(others);
      format.header && names.size() == 1 && other != std::string::npos) {
    return InvalidArgument("{}: its only column is \"{}\": give it `delimiter: \"{}\"`", name,
                           PrintableLine(names[0]), PrintableLine(names[0].substr(other, 1)));
  }
  COHORT_RETURN_IF_ERROR(table->Begin(name, names));
  while (true) {
    COHORT_ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) return table->End();
    COHORT_RETURN_IF_ERROR(table->Add(reader.fields(), reader.line()));
  }
}

}  // namespace

absl::StatusOr<Table> ParseCsv(std::string_view text, const CsvFormat& format, const ColumnUse& use,
                               const RowRange& range, std::string_view name) {
  TextTable table(format.cells, use, range);
  COHORT_RETURN_IF_ERROR(AddCsv(CsvReader(text, format.delimiter, name), format, name, &table));
  return table.Finish();
}

namespace {

struct CsvListKind {
  ClassSchema schema;
};

const SchemaSet& CsvListKinds() {
  static const auto& kinds = *[] {
    std::vector<CsvListKind> classes;
    for (ClassSchema& schema : ListSchemas(
             {String("separator", "One character between the elements of a list.").Default("|")})) {
      classes.push_back({std::move(schema)});
    }
    return new ClassRegistry<CsvListKind>("list kind", SchemaSet::Spelling::kAnyCase, "",
                                          std::move(classes));
  }();
  return kinds;
}

absl::StatusOr<std::map<std::string, ListFormat>> ListsOfCells(const Config& config) {
  std::map<std::string, ListFormat> lists;
  if (config.IsNone("lists")) return lists;
  for (const auto& [name, list] : config.Objects("lists")) {
    const std::string& separator = Config(list).String("separator");
    if (separator.size() != 1 || separator == config.String("delimiter") || separator == "\n") {
      return InvalidArgument(
          "lists: {}: separator must be one character other than the delimiter, not \"{}\"",
          PrintableLine(name), PrintableLine(separator.substr(0, 60)));
    }
    lists[name].separator = separator[0];
    COHORT_ASSIGN_OR_RETURN(lists[name].field, MakeListField(name, list));
  }
  return lists;
}

absl::Status CheckCsv(const Config& config) {
  const std::string& delimiter = config.String("delimiter");
  COHORT_ASSIGN_OR_RETURN(const std::vector<std::string> patterns, PatternsOf(config));
  const std::string path = PublicPath(patterns.front());
  if (delimiter.size() != 1 ||
      std::string_view("\"\n\r\0", 4).find(delimiter[0]) != std::string_view::npos) {
    return InvalidArgument(
        "{}: delimiter must be one character that can separate fields, not \"{}\"{}", path,
        PrintableLine(delimiter.substr(0, 60)),
        delimiter == "\\t" ? ": a tab is \"\\t\" within double quotes" : "");
  }
  if (config.String("decimal") == delimiter) {
    return InvalidArgument("{}: delimiter and decimal are both \"{}\"", path, delimiter);
  }
  COHORT_RETURN_IF_ERROR(ListsOfCells(config).status());
  if (config.Bool("no_header") && config.Strings("columns").empty()) {
    return InvalidArgument("{}: a file without a header needs `columns`, their names", path);
  }
  return absl::OkStatus();
}

// Returns what CsvReader reads a file with.
CsvReader::More PiecesOf(const FileBytes& file, uint32_t* crc32) {
  return [&file, crc32, at = uint64_t{0}](std::string* text) mutable -> absl::Status {
    const size_t before = text->size(), size = std::min(file.size() - at, kCsvPieceBytes);
    text->resize(before + size);
    const std::span<char> piece = std::span(*text).subspan(before);
    COHORT_RETURN_IF_ERROR(file.Read(at, std::as_writable_bytes(piece)));
    *crc32 = static_cast<uint32_t>(
        crc32_z(*crc32, reinterpret_cast<const Bytef*>(piece.data()), piece.size()));
    at += size;
    return absl::OkStatus();
  };
}

absl::StatusOr<FileBlocks> SplitCsv(const Config& config, const SourceContext& context,
                                    const BlockCutter::Options& options) {
  COHORT_ASSIGN_OR_RETURN(const auto inputs, FindInputFiles(config, context.options));
  COHORT_ASSIGN_OR_RETURN(const FileBytes file, OpenContents(inputs[0], context.options));
  uint32_t crc32 = 0;
  CsvReader reader(PiecesOf(file, &crc32), config.String("delimiter")[0],
                   PublicPath(inputs[0].path));
  BlockCutter cutter(options);
  if (!config.Bool("no_header")) {
    COHORT_RETURN_IF_ERROR(reader.Next().status());
    cutter.Begin(reader.offset());
  }
  while (true) {
    COHORT_ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more || !cutter.Add(reader.offset())) return cutter.Finish();
  }
}

absl::StatusOr<Table> ReadCsvTable(const Config& config, const SourceContext& context,
                                   const TableRequest& request) {
  CsvFormat format;
  format.header = !config.Bool("no_header");
  format.columns = config.Strings("columns");
  format.delimiter = config.String("delimiter")[0];
  format.cells.decimal = config.String("decimal")[0];
  if (!config.IsNone("missing")) format.cells.missing = config.Float("missing");
  format.cells.na_values = config.Strings("na_values");
  COHORT_ASSIGN_OR_RETURN(format.cells.lists, ListsOfCells(config));
  TextTable reading(format.cells, request.use, request.range);
  std::vector<v1::FileFingerprint> files;
  COHORT_ASSIGN_OR_RETURN(const auto inputs, FindInputFiles(config, context.options));
  for (const InputFile& input : inputs) {
    COHORT_ASSIGN_OR_RETURN(const FileBytes file, OpenContents(input, context.options));
    uint32_t crc32 = 0;
    const std::string path = PublicPath(input.path);
    COHORT_RETURN_IF_ERROR(
        AddCsv(CsvReader(PiecesOf(file, &crc32), format.delimiter, path), format, path, &reading));
    files.push_back(MakeFileFingerprint(input.path, file.size(), crc32));
  }
  COHORT_ASSIGN_OR_RETURN(Table table, reading.Finish());
  table.files = std::move(files);
  return table;
}

}  // namespace

SourceClass CsvSource() {
  return {
      .schema = {.name = "csv",
                 .doc =
                     "CSV files, parsed when the data is opened. A column is words if a transform "
                     "looks them up, else numbers.",
                 .arguments = FileListArguments(
                     {Bool("no_header", "True: the first line is data.").Default(false),
                      String("delimiter", "One character.").Default(","),
                      String("decimal", "What separates the fraction of a number.")
                          .Default(".")
                          .OneOf({".", ","}),
                      Float("missing", "The number of an empty cell; none: such a column is words.")
                          .Optional(),
                      Strings("na_values", "Cells that count as empty, as `NA`.").Optional(),
                      Strings("columns", "Names, if the file has no header.").Optional(),
                      Objects("lists", CsvListKinds, "numbers",
                              "Columns whose cells are lists, by name: `scores: {length: 4, "
                              "separator: ';', pad_with: -1}`, `tags: {words: {length: 3, "
                              "truncate: true}}`.")
                          .Optional()})},
      .no_record_arguments = {std::begin(kNoRecordArguments), std::end(kNoRecordArguments)},
      .check = CheckCsv,
      .read_table = ReadCsvTable,
      .split = SplitCsv};
}

}  // namespace cohort
