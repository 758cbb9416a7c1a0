// A folder of texts, as keras.utils.text_dataset_from_directory reads it.
#include <absl/strings/match.h>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/class_folder.h"
#include "common/data/file_bytes.h"
#include "common/data/source_class.h"

namespace cohort {
namespace {

// No text needs more: it is kept in memory.
constexpr uint64_t kMaxTextBytes = 64 << 20;

absl::StatusOr<bool> IsTextFile(const std::string& name) {
  return absl::EndsWithIgnoreCase(name, ".txt");
}

class TextFolder : public RecordSource {
 public:
  TextFolder(ClassFolder folder, size_t max_length)
      : folder_(std::move(folder)),
        max_length_(max_length),
        columns_({{"label", DType::kInt64, {}}}),
        word_columns_({{"text", DType::kInvalid, {}}}) {}

  uint64_t num_records() const override { return folder_.files.size(); }
  const std::vector<FeatureType>& columns() const override { return columns_; }
  const std::vector<FeatureType>& word_columns() const override { return word_columns_; }
  std::string fingerprint() const override { return FingerprintOf(folder_.files); }
  std::string Place(uint64_t record, std::string_view) const override {
    return PrintableLine(PathOf(record));
  }

  absl::Status Read(const RecordContext& context,
                    std::span<const std::span<std::byte>> values) const override {
    const int64_t label = folder_.files[context.record].label;
    if (!values[0].empty()) std::memcpy(values[0].data(), &label, sizeof(label));
    return absl::OkStatus();
  }

  absl::Status ReadWords(uint64_t record, std::span<const size_t>, AddWord add) const override {
    std::string text;
    COHORT_RETURN_IF_ERROR(ReadWholeFile(PathOf(record), kMaxTextBytes, &text));
    add(0, std::string_view(text).substr(0, max_length_));
    return absl::OkStatus();
  }

 private:
  std::string PathOf(uint64_t record) const {
    return folder_.root + "/" + folder_.files[record].path;
  }

  const ClassFolder folder_;
  const size_t max_length_;
  const std::vector<FeatureType> columns_;
  const std::vector<FeatureType> word_columns_;
};

absl::StatusOr<std::shared_ptr<const RecordSource>> OpenTextFolder(const Config& config,
                                                                   const SourceContext& context) {
  COHORT_ASSIGN_OR_RETURN(ClassFolder folder,
                          ReadClassFolder(config, context.options, IsTextFile, "texts (.txt)"));
  const size_t max_length = config.IsNone("max_length")
                                ? std::string_view::npos
                                : static_cast<size_t>(config.Int("max_length"));
  return std::make_shared<TextFolder>(std::move(folder), max_length);
}

}  // namespace

SourceClass TextFolderSource() {
  return {.schema = {.name = "text_folder",
                     .doc = "A folder with a sub-directory of .txt files for each class, as "
                            "`text_dataset_from_directory` of Keras reads it: columns `text` (one "
                            "word: the contents of a file) and `label`, the number of the class. "
                            "Texts that a transform reads are kept in memory.",
                     .arguments = ClassFolderArguments(
                         {Int("max_length", "Bytes that are used of a text; none: all.")
                              .Optional()
                              .AtLeast(1)})},
          .no_record_arguments = {"url"},
          .check = CheckClassFolder,
          .open = OpenTextFolder};
}

}  // namespace cohort
