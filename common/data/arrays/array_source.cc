#include "common/data/arrays/array_source.h"

#include <algorithm>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/file_bytes.h"

namespace cohort {
namespace {

class ArraySource : public RecordSource {
 public:
  ArraySource(std::vector<NpyArray> arrays, std::vector<FeatureType> columns,
              std::string fingerprint)
      : arrays_(std::move(arrays)),
        columns_(std::move(columns)),
        fingerprint_(std::move(fingerprint)) {}

  uint64_t num_records() const override { return arrays_[0].rows(); }
  const std::vector<FeatureType>& columns() const override { return columns_; }
  std::string fingerprint() const override { return fingerprint_; }
  std::string Place(uint64_t record, std::string_view column) const override {
    const auto found = std::find_if(columns_.begin(), columns_.end(),
                                    [&](const FeatureType& c) { return c.name == column; });
    // A transform has made the column from one of them.
    const auto array = static_cast<size_t>(found == columns_.end() ? 0 : found - columns_.begin());
    return fmt::format("{}: row {}", arrays_[array].name(), record);
  }
  absl::Status Read(const RecordContext& context,
                    std::span<const std::span<std::byte>> values) const override {
    for (size_t i = 0; i < arrays_.size(); ++i) {
      if (values[i].empty()) continue;
      COHORT_RETURN_IF_ERROR(arrays_[i].ReadRow(context.record, values[i]));
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<NpyArray> arrays_;
  const std::vector<FeatureType> columns_;
  const std::string fingerprint_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const RecordSource>> MakeArraySource(std::vector<NpyArray> arrays,
                                                                    std::vector<std::string> names,
                                                                    std::string fingerprint) {
  if (arrays.empty()) return InvalidArgument("there are no arrays");
  std::vector<FeatureType> columns;
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].rows() != arrays[0].rows()) {
      return InvalidArgument("{} has {} rows, {} has {}: choose arrays of equal lengths",
                             arrays[0].name(), arrays[0].rows(), arrays[i].name(),
                             arrays[i].rows());
    }
    columns.push_back({std::move(names[i]), arrays[i].dtype(), arrays[i].dims()});
  }
  return std::make_shared<ArraySource>(std::move(arrays), std::move(columns),
                                       std::move(fingerprint));
}

absl::StatusOr<NpyArray> OpenNpyFile(const InputFile& file, const DataOptions& options,
                                     std::string* fingerprint) {
  COHORT_ASSIGN_OR_RETURN(FileBytes opened, FileBytes::Open(file, options));
  const auto bytes = std::make_shared<const FileBytes>(std::move(opened));
  COHORT_ASSIGN_OR_RETURN(const uint32_t crc32, bytes->SampledCrc32());
  *fingerprint += fmt::format("{}{} {} bytes {:08x}", fingerprint->empty() ? "" : ", ",
                              PrintableLine(bytes->path()), bytes->size(), crc32);
  return NpyArray::Open(
      [bytes](uint64_t at, std::span<std::byte> out) { return bytes->Read(at, out); },
      bytes->size(), PrintableLine(bytes->path()));
}

absl::StatusOr<std::vector<std::string>> NamesOfColumns(const std::vector<std::string>& columns,
                                                        std::vector<std::string> names) {
  if (columns.empty()) return names;
  if (columns.size() == names.size()) return columns;
  return InvalidArgument("`columns` has {} names for {} arrays", columns.size(), names.size());
}

}  // namespace cohort
