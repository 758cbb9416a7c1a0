#ifndef COHORT_DEPLOY_LAUNCHER_EXPORT_CHECKPOINT_H_
#define COHORT_DEPLOY_LAUNCHER_EXPORT_CHECKPOINT_H_

#include <absl/status/statusor.h>

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
};

// Writes the variables of a checkpoint, without slots, into one file for other programs. Returns
// what is printed: the file and the checkpoint. Errors: NotFound if there is no checkpoint;
// DataLoss for a damaged one; those of writing the file, which exists whole or not at all.
absl::StatusOr<std::string> ExportCheckpoint(const ExportOptions& options);

// True for the formats that Python's package `cohort` writes, because they need Keras, ONNX or
// PyTorch: keras, weights_h5, saved_model, onnx, torch.
bool IsPythonFormat(std::string_view format);

// Becomes `python3 -m cohort` with these arguments, "export" first. It finds the programs of
// `bin_dir`, unless COHORT_BIN_DIR names others. Errors: NotFound if there is no python3.
absl::Status ExportByPython(const std::string& bin_dir, const std::vector<std::string>& arguments);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_EXPORT_CHECKPOINT_H_
