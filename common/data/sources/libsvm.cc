// The text format of LIBSVM and SVMlight: "label index:value index:value ...".
#include <charconv>
#include <cmath>
#include <iterator>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/files/file_list.h"
#include "common/data/records/file_sequence.h"
#include "common/data/records/line_file.h"
#include "common/data/release_if_large.h"
#include "common/data/source_class.h"

namespace cohort {
namespace {

// Parses all of `text` as a number.
template <typename T>
bool ParseAll(std::string_view text, T* number) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *number);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

// Takes the next word off a line; "" at its end.
std::string_view NextWord(std::string_view* line) {
  constexpr std::string_view kBetween = " \t";
  line->remove_prefix(std::min(line->find_first_not_of(kBetween), line->size()));
  const std::string_view word = line->substr(0, line->find_first_of(kBetween));
  line->remove_prefix(word.size());
  return word;
}

class LibsvmRecords : public RecordSource {
 public:
  LibsvmRecords(FileSequence<LineFile> files, int64_t num_features, int64_t first_index,
                DType label)
      : files_(std::move(files)),
        num_features_(num_features),
        first_index_(first_index),
        columns_({{"features", DType::kFloat32, {num_features}}, {"label", label, {}}}) {}

  uint64_t num_records() const override { return files_.records(); }
  const std::vector<FeatureType>& columns() const override { return columns_; }
  std::string fingerprint() const override { return files_.fingerprint(); }
  std::string Place(uint64_t record, std::string_view) const override {
    const auto [file, number] = files_.Find(record);
    return file.Place(number);
  }

  absl::Status Read(const RecordContext& context,
                    std::span<const std::span<std::byte>> values) const override {
    thread_local std::string line;
    const ReleaseIfLarge release(&line);
    const auto [file, number] = files_.Find(context.record);
    absl::Status read = file.Read(number, &line);
    if (read.ok()) read = Parse(line, values);
    return read.ok() ? read : Annotate(read, file.Place(number));
  }

 private:
  absl::Status Parse(std::string_view line, std::span<const std::span<std::byte>> values) const {
    line = line.substr(0, line.find('#'));
    double label = 0;
    const std::string_view word = NextWord(&line);
    if (!ParseAll(word, &label) || !std::isfinite(label)) {
      return DataLoss("\"{}\" is no label: a line is LABEL INDEX:VALUE INDEX:VALUE ...",
                      PrintableLine(word.substr(0, 60)));
    }
    if (!IsFloating(columns_[1].dtype) && label != std::trunc(label)) {
      return DataLoss("the label {} is no integer: set `label_dtype: float32`", label);
    }
    if (!values[1].empty()) {
      ConvertNumbers(DType::kFloat64, &label, columns_[1].dtype, values[1].data(), 1);
    }
    if (values[0].empty()) return absl::OkStatus();
    std::memset(values[0].data(), 0, values[0].size());
    int64_t last = first_index_ - 1;
    for (int entry = 1;; ++entry) {
      const std::string_view pair = NextWord(&line);
      if (pair.empty()) return absl::OkStatus();
      if (pair.starts_with("qid:")) continue;
      const size_t colon = pair.find(':');
      int64_t index = 0;
      float value = 0;
      if (colon == pair.npos || !ParseAll(pair.substr(0, colon), &index) ||
          !ParseAll(pair.substr(colon + 1), &value) || !std::isfinite(value)) {
        return DataLoss("entry {}, \"{}\", is not INDEX:VALUE with a finite value", entry,
                        PrintableLine(pair.substr(0, 60)));
      }
      COHORT_RETURN_IF_ERROR(CheckIndex(index, last, entry));
      last = index;
      std::memcpy(values[0].data() + static_cast<size_t>(index - first_index_) * sizeof(value),
                  &value, sizeof(value));
    }
  }

  absl::Status CheckIndex(int64_t index, int64_t last, int entry) const {
    if (index < first_index_) {
      return DataLoss("entry {}: the index {} is too small{}", entry, index,
                      index == 0 ? ": set `zero_based: true`" : "");
    }
    if (index - first_index_ >= num_features_) {
      return DataLoss("entry {}: the index {} is beyond `num_features: {}`{}", entry, index,
                      num_features_,
                      first_index_ == 0 && index == num_features_
                          ? "; files that count from 1 need `zero_based: false`"
                          : "");
    }
    if (index > last) return absl::OkStatus();
    return DataLoss("entry {}: the index {} follows {}: indices must increase", entry, index, last);
  }

  const FileSequence<LineFile> files_;
  const int64_t num_features_;
  const int64_t first_index_;
  const std::vector<FeatureType> columns_;
};

absl::StatusOr<std::shared_ptr<const RecordSource>> OpenLibsvm(const Config& config,
                                                               const SourceContext& context) {
  COHORT_ASSIGN_OR_RETURN(const auto inputs, FindInputFiles(config, context.options));
  FileSequence<LineFile> files;
  for (const InputFile& input : inputs) {
    COHORT_ASSIGN_OR_RETURN(LineFile file, LineFile::Open(input, context.options, /*comment=*/'#'));
    COHORT_RETURN_IF_ERROR(files.Add(std::move(file)));
  }
  if (files.records() == 0) return NoRecords(inputs);
  return std::make_shared<LibsvmRecords>(std::move(files), config.Int("num_features"),
                                         config.Bool("zero_based") ? 0 : 1,
                                         *DTypeFromName(config.String("label_dtype")));
}

}  // namespace

SourceClass LibsvmSource() {
  return {
      .schema = {.name = "libsvm",
                 .doc =
                     "Files of LIBSVM, `LABEL INDEX:VALUE INDEX:VALUE ...` on each line: columns "
                     "`features` (float32; 0 where a line has no value) and `label`. Records are "
                     "read when they are used. Files may be packed with gzip or zstd. `qid` and "
                     "comments (#) are skipped.",
                 .arguments = FileListArguments(
                     {Int("num_features", "The length of `features`.").Between(1, 1 << 28),
                      Bool("zero_based", "True: the first index is 0, else 1.").Default(false),
                      String("label_dtype", "The type of `label`.")
                          .Default("float32")
                          .OneOf({"float32", "float64", "int32", "int64"})})},
      .no_record_arguments = {std::begin(kNoRecordArguments), std::end(kNoRecordArguments)},
      .check = [](const Config& config) { return PatternsOf(config).status(); },
      .open = OpenLibsvm};
}

}  // namespace cohort
