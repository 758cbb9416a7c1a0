// Objects of JSON, one on each line.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/fingerprint.h"
#include "common/data/input_file.h"
#include "common/data/source_class.h"
#include "common/data/sources/decoders.h"

namespace cohort {
namespace {

using Json = nlohmann::ordered_json;

// The text of a cell. Errors: InvalidArgument for a list or an object.
absl::StatusOr<std::string> CellOfJson(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get_ref<const std::string&>();
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  if (value.is_number()) return value.dump();
  return InvalidArgument("is a list or an object, and a cell is a number or a string");
}

// The cells of a record, in the order of the names, which are those of the first record.
absl::StatusOr<std::vector<std::string>> CellsOf(const Json& object,
                                                 std::span<const std::string> names) {
  std::vector<std::string> cells(names.size());
  for (const auto& [name, value] : object.items()) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      return DataLoss("the first record has no \"{}\"", PrintableLine(name));
    }
    auto cell = CellOfJson(value);
    if (!cell.ok()) {
      return DataLoss("\"{}\" {}", PrintableLine(name), std::string(cell.status().message()));
    }
    cells[static_cast<size_t>(found - names.begin())] = *std::move(cell);
  }
  return cells;
}

absl::Status AddJsonLines(std::string_view text, std::string_view file, TextTable* table) {
  std::vector<std::string> names;
  uint64_t line = 0;
  bool begun = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view record = text.substr(at, end - at);
    at = end + 1;
    ++line;
    if (record.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const Json object = Json::parse(record, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) return DataLoss("{}: line {}: is no object of JSON", file, line);
    if (!begun) {
      names = table->names();
      if (names.empty()) {
        for (const auto& [name, value] : object.items()) names.push_back(name);
      }
      COHORT_RETURN_IF_ERROR(table->Begin(file, names));
      begun = true;
    }
    const auto cells = CellsOf(object, names);
    if (!cells.ok()) return Annotate(cells.status(), fmt::format("{}: line {}", file, line));
    const std::vector<std::string_view> views(cells->begin(), cells->end());
    COHORT_RETURN_IF_ERROR(table->Add(views, line));
  }
  if (!begun) return DataLoss("{}: has no records", file);
  return table->End();
}

absl::StatusOr<Table> ReadJsonTable(const Config& config, const SourceContext& context,
                                    const TableRequest& request) {
  CellFormat format;
  if (!config.IsNone("missing")) format.missing = config.Float("missing");
  TextTable reading(format, request.use, request.range);
  std::vector<v1::FileFingerprint> files;
  COHORT_ASSIGN_OR_RETURN(const std::vector<std::string> patterns, PatternsOf(config));
  for (const std::string& pattern : patterns) {
    const InputFile named{pattern, config.String("url"), ""};
    COHORT_ASSIGN_OR_RETURN(const auto paths, FindInputFiles(named, context.options));
    for (const std::string& path : paths) {
      uint32_t crc32 = 0;
      COHORT_ASSIGN_OR_RETURN(const std::string text,
                              ReadInputFile({path, named.url, ""}, context.options, &crc32));
      COHORT_RETURN_IF_ERROR(AddJsonLines(text, path, &reading));
      files.push_back(MakeFileFingerprint(path, text.size(), crc32));
    }
  }
  COHORT_ASSIGN_OR_RETURN(Table table, reading.Finish());
  table.files = std::move(files);
  return table;
}

}  // namespace

absl::StatusOr<Table> ParseJsonLines(std::string_view text, const CellFormat& format,
                                     const ColumnUse& use, const RowRange& range,
                                     std::string_view name) {
  TextTable table(format, use, range);
  COHORT_RETURN_IF_ERROR(AddJsonLines(text, name, &table));
  return table.Finish();
}

SourceClass JsonLinesSource() {
  return {
      .schema =
          {.name = "json_lines",
           .doc = "Files with an object of JSON on each line, read into memory: a column for each "
                  "name of the first one. A column is words if a transform looks them up, else "
                  "numbers; true and false are 1 and 0.",
           .arguments = {String("path",
                                "A file below `COHORT_DATA_DIR`, or absolute; may be packed with "
                                "gzip. `*`, `?` and `[a-z]` stand for more files.")
                             .Optional(),
                         FilesArgument(),
                         Float("missing",
                               "The number of null, and of a name that is not there; none: a "
                               "column with one is no number.")
                             .Optional(),
                         String("url", "Shown in the error if the file is missing.").Optional()}},
      .no_record_arguments = {"url"},
      .check = [](const Config& config) { return PatternsOf(config).status(); },
      .read_table = ReadJsonTable};
}

}  // namespace cohort
