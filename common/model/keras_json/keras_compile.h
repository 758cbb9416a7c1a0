#ifndef COHORT_COMMON_MODEL_KERAS_JSON_KERAS_COMPILE_H_
#define COHORT_COMMON_MODEL_KERAS_JSON_KERAS_COMPILE_H_

#include <absl/status/status.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace cohort {

// The arguments of `model.compile()` that Keras 3 keeps in the JSON of a model ("compile_config").
// Each function reads one of them into `compile`, and changes nothing if it is not given. `outputs`
// are the names of the model's outputs. Errors: InvalidArgument, or Unimplemented for what this
// version lacks, "compile_config.loss: ...".

// Sets `losses`: one for each output.
absl::Status ReadKerasLoss(const nlohmann::json& config, const std::vector<std::string>& outputs,
                           v1::CompileSpec* compile);
// Sets the weights of `losses`, which are there already.
absl::Status ReadKerasLossWeights(const nlohmann::json& config,
                                  const std::vector<std::string>& outputs,
                                  v1::CompileSpec* compile);
absl::Status ReadKerasMetrics(const nlohmann::json& config, const std::vector<std::string>& outputs,
                              v1::CompileSpec* compile);
absl::Status ReadKerasOptimizer(const nlohmann::json& config, v1::CompileSpec* compile);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_KERAS_JSON_KERAS_COMPILE_H_
