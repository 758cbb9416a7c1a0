// Files of tf.Examples, as TensorFlow Datasets writes them.
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/data/files/file_list.h"
#include "common/data/good_records.h"
#include "common/data/records/example_columns.h"
#include "common/data/records/good_sequence.h"
#include "common/data/records/tf_record_file.h"
#include "common/data/release_if_large.h"
#include "common/data/source_class.h"

namespace cohort {
namespace {

class TfRecords : public RecordSource {
 public:
  TfRecords(FileSequence<TfRecordFile> files, ExampleColumns examples)
      : records_(std::move(files)), examples_(std::move(examples)) {}

  uint64_t num_records() const override { return records_.records(); }
  const std::vector<FeatureType>& columns() const override { return examples_.columns(); }
  const std::vector<FeatureType>& word_columns() const override { return examples_.word_columns(); }
  std::string fingerprint() const override { return records_.fingerprint(); }
  std::vector<std::string> warnings() const override { return records_.warnings(); }

  std::string Place(uint64_t record, std::string_view) const override {
    const auto [file, number] = records_.files().Find(records_.NumberOf(record));
    return fmt::format("{}: record {}", file.file().path(), number);
  }

  absl::Status Read(const RecordContext& context,
                    std::span<const std::span<std::byte>> values) const override {
    return WithRecord(records_.NumberOf(context.record),
                      [&](std::string_view record) { return examples_.Decode(record, values); });
  }

  // Small records that follow one another in a file are read at once.
  absl::Status ReadBatch(std::span<const uint64_t> records, bool training,
                         std::span<const std::span<std::byte>> values) const override {
    thread_local std::string piece;
    const ReleaseIfLarge release(&piece);
    std::vector<std::span<std::byte>> of_record;
    for (const auto column : values)
      of_record.push_back(column.first(column.size() / records.size()));
    for (size_t row = 0, count = 0; row < records.size(); row += count) {
      const auto [file, first] = records_.files().Find(records_.NumberOf(records[row]));
      count = file.CountOfPiece(first, CountInSequence(records.subspan(row)));
      // If it fails, reading one by one finds the record that the error must name.
      if (!file.ReadPiece(first, count, &piece).ok()) {
        return RecordSource::ReadBatch(records, training, values);
      }
      for (size_t i = 0; i < count; ++i) {
        const absl::Status read =
            UseRecord(file, first + i, file.RecordOf(piece, first, first + i),
                      [&](std::string_view bytes) { return examples_.Decode(bytes, of_record); });
        if (!read.ok()) return Annotate(read, fmt::format("record {}", records[row + i]));
        for (auto& column : of_record) column = {column.data() + column.size(), column.size()};
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadWords(uint64_t record, std::span<const size_t> columns,
                         AddWord add) const override {
    return WithRecord(records_.NumberOf(record), [&](std::string_view bytes) {
      return examples_.DecodeWordsOf(bytes, columns, add);
    });
  }

  // Leaves out the records that cannot be decoded.
  absl::Status SkipCorrupt(const DataOptions& options) {
    const auto check = [&](uint64_t number) {
      return WithRecord(number, [&](std::string_view record) { return examples_.Check(record); });
    };
    return records_.SkipCorrupt("tfrecord", options, check);
  }

 private:
  // Returns how many of the records, from the first on, follow one another in the files.
  size_t CountInSequence(std::span<const uint64_t> records) const {
    const uint64_t first = records_.NumberOf(records[0]);
    size_t count = 1;
    while (count < records.size() && records_.NumberOf(records[count]) == first + count) ++count;
    return count;
  }

  // Calls `use` with record `number` of all files. Adds the file and the record to errors.
  template <typename Use>
  absl::Status WithRecord(uint64_t number, const Use& use) const {
    thread_local std::string piece;
    const ReleaseIfLarge release(&piece);
    const auto [file, record] = records_.files().Find(number);
    return UseRecord(file, record, file.Read(record, &piece), use);
  }

  template <typename Use>
  static absl::Status UseRecord(const TfRecordFile& file, uint64_t record,
                                const absl::StatusOr<std::string_view>& bytes, const Use& use) {
    if (!bytes.ok()) return bytes.status();
    const absl::Status used = use(*bytes);
    if (used.ok()) return used;
    return Annotate(used, fmt::format("{}: record {}", file.file().path(), record));
  }

  GoodSequence<TfRecordFile> records_;
  const ExampleColumns examples_;
};

absl::Status CheckTfRecord(const Config& config) {
  COHORT_RETURN_IF_ERROR(PatternsOf(config).status());
  return ExampleColumns::Create(config.Objects("features")).status();
}

absl::StatusOr<std::shared_ptr<const RecordSource>> OpenTfRecord(const Config& config,
                                                                 const SourceContext& context) {
  COHORT_ASSIGN_OR_RETURN(ExampleColumns examples,
                          ExampleColumns::Create(config.Objects("features")));
  const bool skip = config.String("on_corrupt") == "skip";
  COHORT_ASSIGN_OR_RETURN(const auto inputs, FindInputFiles(config, context.options));
  FileSequence<TfRecordFile> files;
  absl::Status damage;  // the first, after which a file has no more records
  for (const InputFile& input : inputs) {
    absl::Status torn;
    COHORT_ASSIGN_OR_RETURN(TfRecordFile file,
                            TfRecordFile::Open(input, context.options, skip ? &torn : nullptr));
    if (!torn.ok() && context.options.log != nullptr) {
      context.options.log->Failure(LogLevel::kWarning, "records_after_damage_skipped", torn);
    }
    damage.Update(torn);
    COHORT_RETURN_IF_ERROR(files.Add(std::move(file)));
  }
  auto source = std::make_shared<TfRecords>(std::move(files), std::move(examples));
  if (source->num_records() == 0 && !damage.ok()) {
    return Annotate(damage, "the damage leaves no record, and `on_corrupt: skip` needs one");
  }
  if (source->num_records() == 0) return NoRecords(inputs);
  if (skip) COHORT_RETURN_IF_ERROR(source->SkipCorrupt(context.options));
  return source;
}

absl::StatusOr<FileBlocks> SplitTfRecord(const Config& config, const SourceContext& context,
                                         const BlockCutter::Options& options) {
  COHORT_ASSIGN_OR_RETURN(const auto inputs, FindInputFiles(config, context.options));
  COHORT_ASSIGN_OR_RETURN(const TfRecordFile file,
                          TfRecordFile::Open(inputs[0], context.options, /*torn=*/nullptr));
  BlockCutter cutter(options);
  for (uint64_t i = 0; i < file.records() && cutter.Add(file.EndOf(i)); ++i) {
  }
  return cutter.Finish();
}

}  // namespace

SourceClass TfRecordSource() {
  return {
      .schema =
          {.name = "tfrecord",
           .doc = "TFRecord files of `tf.Example`s, as TensorFlow Datasets writes them: a column "
                  "for each feature. Records are read when they are used, and their checksums "
                  "are compared. Files may be packed with gzip or zstd.",
           .arguments = FileListArguments(
               {Objects("features", FeatureKinds, "tensor",
                        "The features to read. `image: {image: {image_size: 160}}`: an encoded "
                        "JPEG or PNG, with the arguments of `image_folder`. `label: {dtype: "
                        "int64, shape: []}`: numbers, float32 and [] by default. `genres: {words: "
                        "{shape: [3], pad_with: ''}}`: words, up to 3 of them."),
                OnCorruptArgument()})},
      .no_record_arguments = {std::begin(kNoRecordArguments), std::end(kNoRecordArguments)},
      .check = CheckTfRecord,
      .open = OpenTfRecord,
      .split = SplitTfRecord};
}

}  // namespace cohort
