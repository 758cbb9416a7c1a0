// Files with a JSON object on each line.
#include "common/base/status.h"
#include "common/data/files/file_list.h"
#include "common/data/good_records.h"
#include "common/data/records/good_sequence.h"
#include "common/data/records/json_columns.h"
#include "common/data/records/line_file.h"
#include "common/data/release_if_large.h"
#include "common/data/source_class.h"
#include "common/data/sources/decoders.h"

namespace cohort {
namespace {

class JsonLines : public RecordSource {
 public:
  explicit JsonLines(FileSequence<LineFile> files) : lines_(std::move(files)) {}

  // The columns of the job.
  void SetColumns(JsonColumns columns) { columns_ = std::move(columns); }

  // Finds the columns of all records that are not left out.
  absl::Status FindColumns(const std::optional<double>& missing, bool skip_corrupt) {
    JsonColumnFinder finder;
    std::vector<uint64_t> read;
    for (uint64_t number = 0; number < lines_.files().records(); ++number) {
      const absl::Status added =
          WithLine(number, [&](std::string_view line) { return finder.Add(line); });
      if (skip_corrupt && absl::IsDataLoss(added)) continue;
      COHORT_RETURN_IF_ERROR(added);
      read.push_back(number);
    }
    columns_ = finder.Finish(
        missing, [&](uint64_t record) { return PlaceOf(read[record]); }, &no_features_);
    return absl::OkStatus();
  }

  // Leaves out the records that cannot be decoded.
  absl::Status SkipCorrupt(const DataOptions& options) {
    const auto check = [&](uint64_t number) {
      return WithLine(number, [&](std::string_view line) { return columns_.Check(line); });
    };
    return lines_.SkipCorrupt("json_lines", options, check);
  }

  uint64_t num_records() const override { return lines_.records(); }
  const std::vector<FeatureType>& columns() const override { return columns_.columns(); }
  const std::vector<FeatureType>& word_columns() const override { return columns_.word_columns(); }
  std::map<std::string, std::string> no_features() const override { return no_features_; }
  std::string fingerprint() const override { return lines_.fingerprint(); }
  std::vector<std::string> warnings() const override { return lines_.warnings(); }
  std::string Place(uint64_t record, std::string_view) const override {
    return PlaceOf(lines_.NumberOf(record));
  }

  absl::Status Read(const RecordContext& context,
                    std::span<const std::span<std::byte>> values) const override {
    return WithLine(lines_.NumberOf(context.record),
                    [&](std::string_view line) { return columns_.Decode(line, values); });
  }
  absl::Status ReadWords(uint64_t record, std::span<const size_t> columns,
                         AddWord add) const override {
    return WithLine(lines_.NumberOf(record), [&](std::string_view line) {
      return columns_.DecodeWordsOf(line, columns, add);
    });
  }

 private:
  std::string PlaceOf(uint64_t number) const {
    const auto [file, line] = lines_.files().Find(number);
    return file.Place(line);
  }

  // Calls `use` with a line of all files. Adds the file and the line to errors.
  template <typename Use>
  absl::Status WithLine(uint64_t number, const Use& use) const {
    thread_local std::string bytes;
    const ReleaseIfLarge release(&bytes);
    const auto [file, line] = lines_.files().Find(number);
    absl::Status used = file.Read(line, &bytes);
    if (used.ok()) used = use(bytes);
    return used.ok() ? used : Annotate(used, file.Place(line));
  }

  GoodSequence<LineFile> lines_;
  JsonColumns columns_;
  std::map<std::string, std::string> no_features_;
};

std::optional<double> MissingOf(const Config& config) {
  if (config.IsNone("missing")) return std::nullopt;
  return config.Float("missing");
}

absl::Status CheckJsonLines(const Config& config) {
  COHORT_RETURN_IF_ERROR(PatternsOf(config).status());
  if (config.IsNone("columns")) return absl::OkStatus();
  if (config.Objects("columns").empty()) return InvalidArgument("`columns` names no column");
  return JsonColumns::Create(config.Objects("columns"), MissingOf(config)).status();
}

absl::StatusOr<std::shared_ptr<const RecordSource>> OpenJsonLines(const Config& config,
                                                                  const SourceContext& context) {
  COHORT_ASSIGN_OR_RETURN(const auto inputs, FindInputFiles(config, context.options));
  FileSequence<LineFile> files;
  for (const InputFile& input : inputs) {
    COHORT_ASSIGN_OR_RETURN(LineFile file,
                            LineFile::Open(input, context.options, /*comment=*/'\0'));
    COHORT_RETURN_IF_ERROR(files.Add(std::move(file)));
  }
  if (files.records() == 0) return NoRecords(inputs);
  const bool skip = config.String("on_corrupt") == "skip";
  auto source = std::make_shared<JsonLines>(std::move(files));
  if (config.IsNone("columns")) {
    COHORT_RETURN_IF_ERROR(source->FindColumns(MissingOf(config), skip));
  } else {
    COHORT_ASSIGN_OR_RETURN(JsonColumns columns,
                            JsonColumns::Create(config.Objects("columns"), MissingOf(config)));
    source->SetColumns(std::move(columns));
  }
  if (skip) COHORT_RETURN_IF_ERROR(source->SkipCorrupt(context.options));
  return source;
}

absl::StatusOr<FileBlocks> SplitJsonLines(const Config& config, const SourceContext& context,
                                          const BlockCutter::Options& options) {
  COHORT_ASSIGN_OR_RETURN(const auto inputs, FindInputFiles(config, context.options));
  COHORT_ASSIGN_OR_RETURN(const LineFile file,
                          LineFile::Open(inputs[0], context.options, /*comment=*/'\0'));
  BlockCutter cutter(options);
  for (uint64_t i = 0; i < file.records() && cutter.Add(file.EndOf(i)); ++i) {
  }
  return cutter.Finish();
}

}  // namespace

SourceClass JsonLinesSource() {
  return {
      .schema =
          {.name = "json_lines",
           .doc = "Files with a JSON object on each line. A column is a key, or keys with dots "
                  "between them (`user.age`). Records are read when they are used. Files may be "
                  "packed with gzip or zstd.",
           .arguments = FileListArguments(
               {Objects("columns", JsonFieldKinds, "tensor",
                        "The columns to read: `age: {dtype: int64, missing: -1}`, float32 and [] "
                        "by default; `tags: {words: {path: user.tags, shape: [3], pad_with: ''}}`. "
                        "A key that a record lacks, and null, is an error without `missing`. None: "
                        "all that every record has, which are found by reading all records once.")
                    .Optional(),
                Float("missing",
                      "The number of null, and of a key that is not there, in columns without a "
                      "`missing` of their own; words are empty then. None: it is an error.")
                    .Optional(),
                OnCorruptArgument()})},
      .no_record_arguments = {std::begin(kNoRecordArguments), std::end(kNoRecordArguments)},
      .check = CheckJsonLines,
      .open = OpenJsonLines,
      .split = SplitJsonLines};
}

}  // namespace cohort
