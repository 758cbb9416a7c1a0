#ifndef COHORT_COMMON_MODEL_TRACED_MODEL_H_
#define COHORT_COMMON_MODEL_TRACED_MODEL_H_

#include <absl/status/statusor.h>

#include <string>

namespace cohort {

// The file of `model: {traced: FILE}`, which the Python package writes: a safetensors file with the
// first values of the model's variables. Its metadata has
//
//   "format": "cohort.model"
//   "format_version": "1"
//   "model": JSON with the keys of `model` in a job file: name, dtype, functional, outputs,
//            output_names. Each layer has a line of its own, so errors can name it.
//
// So a traced model is read, checked and built as the layers of a job file are.
struct TracedModel {
  std::string path;
  std::string layers;  // "model"
};

// Errors: NotFound; DataLoss for a damaged file; InvalidArgument for one of another kind;
// Unimplemented for a newer format. All name the file.
absl::StatusOr<TracedModel> ReadTracedModel(const std::string& path);

// True if the name of the file is that of a traced model: "x.cohort".
bool IsTracedModelName(const std::string& path);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_TRACED_MODEL_H_
