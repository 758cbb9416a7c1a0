#ifndef COHORT_COMMON_MODEL_KERAS_JSON_TENSORFLOW_FUNCTIONS_H_
#define COHORT_COMMON_MODEL_KERAS_JSON_TENSORFLOW_FUNCTIONS_H_

#include <absl/status/status.h>

#include <nlohmann/json_fwd.hpp>

namespace cohort {

// The functions of TensorFlow on tensors of Keras 2: `x + y` is a layer TFOpLambda of the function
// "__operators__.add", and `x[:, 0]` a SlicingOpLambda.

// True for such a layer.
bool IsTensorFlowFunction(const nlohmann::json& layer);

// Writes it as the function of keras.ops that does the same, with the arguments of its calls.
// Errors: Unimplemented for a function without such a one, and for arguments that it lacks.
absl::Status ToKerasOperation(nlohmann::json* layer);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_KERAS_JSON_TENSORFLOW_FUNCTIONS_H_
