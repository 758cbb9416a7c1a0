#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/file.h"
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
      if (IsTable(tensor.dims)) {
        return Unimplemented(
            "{}: the rows of the table without bounds \"{}\" cannot be exported, nor begin another "
            "job: continue the job as it was (its model, its optimizer and its loss), or use "
            "another "
            "checkpoint directory",
            path(), name.first);
      }
      tensors.push_back({name.first, tensor.dtype, tensor.dims});
    }
    return SetTensors(std::move(tensors));
  }

 protected:
  absl::Status ReadInto(const SourceTensor& tensor, std::span<uint8_t> out) override {
    const auto rows = static_cast<uint64_t>(tensor.dims.empty() ? 1 : tensor.dims[0]);
    return reader_->ReadRows(tensor.name, "", tensor.dtype, 0, rows, out);
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
