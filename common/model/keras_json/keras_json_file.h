#ifndef COHORT_COMMON_MODEL_KERAS_JSON_KERAS_JSON_FILE_H_
#define COHORT_COMMON_MODEL_KERAS_JSON_KERAS_JSON_FILE_H_

#include <absl/status/statusor.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/schema/model_layer.h"
#include "proto/job.pb.h"

namespace cohort {

// The file of `model: {keras_json: FILE}`: what model.to_json() of Keras 3 or tf_keras returned.
// Errors of all functions begin with the name of the file.
class KerasJsonFile {
 public:
  // Errors: NotFound; InvalidArgument for a file that is not JSON or too large.
  static absl::StatusOr<KerasJsonFile> Read(const std::string& path);

  // Sets the layers and the outputs of `model`, and its name and dtype if they are empty. Returns
  // the layers in Keras' order. Errors: those of KerasModelReader and FlattenKerasModel.
  absl::StatusOr<std::vector<ModelLayer>> SetModel(v1::ModelSpec* model) const;

  // Set what the model was compiled with: the arguments of `model.compile()` that Keras 3 keeps
  // ("compile_config"). Each reads one of them, and changes nothing if it is not given. `outputs`
  // are the names of the model's outputs. SetLossWeights comes after SetLoss, which sets a loss for
  // each output. Errors: InvalidArgument, or Unimplemented for what this version lacks,
  // "FILE: compile_config.loss: ...".
  absl::Status SetLoss(const std::vector<std::string>& outputs, v1::CompileSpec* compile) const;
  absl::Status SetLossWeights(const std::vector<std::string>& outputs,
                              v1::CompileSpec* compile) const;
  absl::Status SetMetrics(const std::vector<std::string>& outputs, v1::CompileSpec* compile) const;
  absl::Status SetWeightedMetrics(const std::vector<std::string>& outputs,
                                  v1::CompileSpec* compile) const;
  absl::Status SetOptimizer(v1::CompileSpec* compile) const;

 private:
  KerasJsonFile(std::string path, nlohmann::json json)
      : path_(std::move(path)), json_(std::move(json)) {}
  // Calls `read` with an argument of `model.compile()`, if it is given.
  absl::Status ReadArgument(
      const char* name, absl::FunctionRef<absl::Status(const nlohmann::json& value)> read) const;

  std::string path_;
  nlohmann::json json_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_KERAS_JSON_KERAS_JSON_FILE_H_
