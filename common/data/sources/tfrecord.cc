// Files of tf.Examples, as TensorFlow Datasets writes them.
#include <algorithm>

#include "common/base/fnv1a.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/data/good_records.h"
#include "common/data/records/example_columns.h"
#include "common/data/records/tf_record_file.h"
#include "common/data/release_if_large.h"
#include "common/data/source_class.h"

namespace cohort {
namespace {

class TfRecords : public RecordSource {
 public:
  TfRecords(std::vector<TfRecordFile> files, ExampleColumns examples, std::string fingerprint)
      : files_(std::move(files)),
        examples_(std::move(examples)),
        fingerprint_(std::move(fingerprint)) {
    for (const TfRecordFile& file : files_) {
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + file.records());
    }
  }

  uint64_t num_records() const override { return good_ ? good_->size() : ends_.back(); }
  const std::vector<FeatureType>& columns() const override { return examples_.columns(); }
  std::string fingerprint() const override { return fingerprint_; }
  std::vector<std::string> warnings() const override {
    return skipped_.empty() ? std::vector<std::string>() : std::vector{skipped_};
  }

  std::string Place(uint64_t record, std::string_view) const override {
    const auto [file, number] = Find(good_ ? (*good_)[record] : record);
    return fmt::format("{}: record {}", file.file().path(), number);
  }

  absl::Status Read(const RecordContext& context,
                    std::span<const std::span<std::byte>> values) const override {
    return WithRecord(good_ ? (*good_)[context.record] : context.record,
                      [&](std::string_view record) { return examples_.Decode(record, values); });
  }

  // Leaves out the records that cannot be decoded.
  absl::Status SkipCorrupt(const DataOptions& options) {
    const auto check = [&](uint64_t number) {
      return WithRecord(number, [&](std::string_view record) { return examples_.Check(record); });
    };
    COHORT_ASSIGN_OR_RETURN(good_,
                            FindGoodRecords("tfrecord", ends_.back(), options, check, &skipped_));
    uint64_t hash = kFnv1aBasis;
    for (const uint64_t record : *good_) hash = Fnv1a(fmt::format("{} ", record), hash);
    fingerprint_ += fmt::format(" {} good {:016x}", good_->size(), hash);
    return absl::OkStatus();
  }

 private:
  // Returns the file that holds record `number` of all files, and the number there.
  std::pair<const TfRecordFile&, uint64_t> Find(uint64_t number) const {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), number);
    const TfRecordFile& file = files_[static_cast<size_t>(end - ends_.begin())];
    return {file, number - (*end - file.records())};
  }

  // Calls `use` with record `number` of all files. Adds the file and the record to errors.
  template <typename Use>
  absl::Status WithRecord(uint64_t number, const Use& use) const {
    thread_local std::string bytes;
    const ReleaseIfLarge release(&bytes);
    const auto [file, record] = Find(number);
    COHORT_RETURN_IF_ERROR(file.Read(record, &bytes));
    const absl::Status used = use(bytes);
    if (used.ok()) return used;
    return Annotate(used, fmt::format("{}: record {}", file.file().path(), record));
  }

  const std::vector<TfRecordFile> files_;
  const ExampleColumns examples_;
  std::string fingerprint_;
  std::vector<uint64_t> ends_;                 // the records up to each file's end
  std::optional<std::vector<uint64_t>> good_;  // none: all
  std::string skipped_;                        // what SkipCorrupt has left out; "": nothing
};

absl::Status CheckTfRecord(const Config& config) {
  return ExampleColumns::Create(config.Objects("features")).status();
}

absl::StatusOr<std::shared_ptr<const RecordSource>> OpenTfRecord(const Config& config,
                                                                 const SourceContext& context) {
  COHORT_ASSIGN_OR_RETURN(ExampleColumns examples,
                          ExampleColumns::Create(config.Objects("features")));
  const bool skip = config.String("on_corrupt") == "skip";
  std::vector<TfRecordFile> files;
  uint64_t hash = kFnv1aBasis;
  absl::Status damage;  // the first, after which a file has no more records
  for (const std::string& pattern : config.Strings("files")) {
    COHORT_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                            FindInputFiles({pattern, config.String("url"), ""}, context.options));
    for (const std::string& path : paths) {
      absl::Status torn;
      COHORT_ASSIGN_OR_RETURN(TfRecordFile file,
                              TfRecordFile::Open({path, config.String("url"), ""}, context.options,
                                                 skip ? &torn : nullptr));
      if (!torn.ok() && context.options.log != nullptr) {
        context.options.log->Failure(LogLevel::kWarning, "records_after_damage_skipped", torn);
      }
      damage.Update(torn);
      COHORT_ASSIGN_OR_RETURN(const uint32_t crc32, file.file().SampledCrc32());
      hash = Fnv1a(
          fmt::format("{}\xff{} {} {}\xff", path, file.file().size(), crc32, file.records()), hash);
      files.push_back(std::move(file));
    }
  }
  if (files.empty()) return InvalidArgument("`files` names no file");
  std::string fingerprint = fmt::format("{} files {:016x}", files.size(), hash);
  auto source =
      std::make_shared<TfRecords>(std::move(files), std::move(examples), std::move(fingerprint));
  if (source->num_records() == 0 && !damage.ok()) {
    return Annotate(damage, "the damage leaves no record, and `on_corrupt: skip` needs one");
  }
  if (source->num_records() == 0) return InvalidArgument("the files have no records");
  if (skip) COHORT_RETURN_IF_ERROR(source->SkipCorrupt(context.options));
  return source;
}

}  // namespace

SourceClass TfRecordSource() {
  return {
      .schema =
          {.name = "tfrecord",
           .doc = "TFRecord files of `tf.Example`s, as TensorFlow Datasets writes them: a column "
                  "for each feature. Records are read when they are used, and their checksums "
                  "are compared. Files of gzip are unpacked into memory.",
           .arguments =
               {Strings("files",
                        "Files below `COHORT_DATA_DIR`, or absolute; `*`, `?` and `[a-z]` stand "
                        "for more."),
                Objects("features", FeatureKinds, "tensor",
                        "The features to read. `image: {image: {image_size: 160}}`: an encoded "
                        "JPEG or PNG, with the arguments of `image_folder`. `label: {dtype: "
                        "int64, shape: []}`: numbers, float32 and [] by default."),
                OnCorruptArgument(),
                String("url", "Shown in the error if a file is missing.").Optional()}},
      .no_record_arguments = {"url"},
      .check = CheckTfRecord,
      .open = OpenTfRecord};
}

}  // namespace cohort
