#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/shard_names.h"
#include "common/tensor/table_rows.h"
#include "common/weights/weight_source.h"

namespace cohort {
namespace {

class CheckpointWeights : public WeightSource {
 public:
  CheckpointWeights(std::string path, std::unique_ptr<CheckpointReader> reader)
      : WeightSource(std::move(path)), reader_(std::move(reader)) {}

  absl::Status Open() {
    std::vector<SourceTensor> tensors;
    for (const auto& [name, tensor] : reader_->tensors()) {
      if (!name.second.empty()) continue;
      tensors.push_back({name.first, tensor.dtype, tensor.dims});
    }
    return SetTensors(std::move(tensors));
  }

  absl::StatusOr<uint64_t> TableSize(const SourceTensor& table) const override {
    return reader_->TableSize(table.name);
  }

 protected:
  absl::Status ReadInto(const SourceTensor& tensor, std::span<uint8_t> out) override {
    const auto rows = static_cast<uint64_t>(tensor.dims.empty() ? 1 : tensor.dims[0]);
    return reader_->ReadRows(tensor.name, "", tensor.dtype, 0, rows, out);
  }
  absl::Status ReadTableInto(const SourceTensor& table, bool values, RowTaker take) override {
    std::vector<std::string> slots;
    if (values) slots.emplace_back();
    std::vector<int64_t> keys;
    return reader_->ReadTable(
        table.name, kKeysSlot, slots, 0, static_cast<uint64_t>(kTableRows),
        [&](std::span<const int64_t> rows, std::span<const std::span<const uint8_t>> tensors) {
          keys.clear();
          for (const int64_t row : rows) keys.push_back(KeyOfRow(row));
          return take(keys, tensors.empty() ? std::span<const uint8_t>() : tensors[0]);
        });
  }

 private:
  const std::unique_ptr<CheckpointReader> reader_;
};

// The checkpoint that `path` names, or the newest valid one in the directory `path`.
absl::StatusOr<std::string> CheckpointIn(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_directory(path, unknown)) return path;
  if (std::filesystem::exists(JoinPath(path, kManifestName), unknown)) return path;
  std::string refusals;
  const auto refused = [&](const std::string&, const absl::Status& why) {
    refusals += fmt::format("; {}", std::string_view(why.message().data(), why.message().size()));
  };
  COHORT_ASSIGN_OR_RETURN(const auto newest, NewestValid(path, refused));
  if (newest.has_value()) return newest->directory;
  if (!refusals.empty())
    return DataLoss("{}: none of its checkpoints is complete{}", path, refusals);
  return NotFound("{}: there is no checkpoint in this directory", path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<WeightSource>> OpenCheckpointWeights(const std::string& path) {
  COHORT_ASSIGN_OR_RETURN(std::string checkpoint, CheckpointIn(path));
  COHORT_ASSIGN_OR_RETURN(auto reader, CheckpointReader::Open(checkpoint, {}));
  auto weights = std::make_unique<CheckpointWeights>(std::move(checkpoint), std::move(reader));
  COHORT_RETURN_IF_ERROR(weights->Open());
  return weights;
}

}  // namespace cohort
