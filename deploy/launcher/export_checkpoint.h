#ifndef COHORT_DEPLOY_LAUNCHER_EXPORT_CHECKPOINT_H_
#define COHORT_DEPLOY_LAUNCHER_EXPORT_CHECKPOINT_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

// The flags of `cohort export`.
struct ExportOptions {
  std::string checkpoint;  // as FindCheckpoint takes it
  std::string format = "safetensors";
  std::string out = "model.safetensors";  // the file to write
  bool no_preprocessing = false;          // for formats of Python, which gets all flags
  int64_t changed_since = -1;             // a step: ExportChanges. -1: all variables are written
};

// Writes the variables of a checkpoint, without slots, into one file for other programs. Returns
// what is printed: the file and the checkpoint. Errors: NotFound if there is no checkpoint;
// DataLoss for a damaged one; those of writing the file, which exists whole or not at all.
absl::StatusOr<std::string> ExportCheckpoint(const ExportOptions& options);

// Writes what has changed since the checkpoint of the step `changed_since`, which lies beside the
// one that is exported, as safetensors:
//
//   <variable>          a variable with another value, whole
//   <variable>@rows     int64: the numbers of changed rows of a variable that steps read by rows
//   <variable>@keys     a table without bounds instead: their keys
//   <variable>@values   these rows
//   <variable>@removed  a table: the keys of rows that are gone
//
// A variable without changes has no tensors. The metadata have `step` and `base_step`, and, because
// two checkpoints may have one step, `id` and `base_id`: CheckpointId of both. If the newer
// checkpoint is an increment of the older one, also over others, only increments are read; else the
// rows of both are compared. Slots are left out. Returns what is printed. Errors: those of
// ExportCheckpoint; NotFound if there is no checkpoint of that step; FailedPrecondition if both
// have other variables.
absl::StatusOr<std::string> ExportChanges(const ExportOptions& options);

// True for the formats that Python's package `cohort` writes, because they need Keras, ONNX or
// PyTorch: keras, weights_h5, saved_model, onnx, torch.
bool IsPythonFormat(std::string_view format);

// Becomes `python3 -m cohort` with these arguments, "export" first. It finds the programs of
// `bin_dir`, unless COHORT_BIN_DIR names others. Errors: NotFound if there is no python3.
absl::Status ExportByPython(const std::string& bin_dir, const std::vector<std::string>& arguments);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_EXPORT_CHECKPOINT_H_
