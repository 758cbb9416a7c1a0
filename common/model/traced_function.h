#ifndef COHORT_COMMON_MODEL_TRACED_FUNCTION_H_
#define COHORT_COMMON_MODEL_TRACED_FUNCTION_H_

#include <absl/status/statusor.h>

#include <string>

#include "common/model/layers/layer.h"

namespace cohort {

// Calls a function of a Python program, such as a loss, that was traced as a model without
// variables: JSON with the keys of `model` in a job file (traced_model.h). Its Inputs "y_true" and
// "y_pred" are the label and the prediction, and it has one output. Returns the output. Errors:
// InvalidArgument, with the line of the JSON.
absl::StatusOr<Expr> CallTracedFunction(const std::string& layers, const LayerOutput& prediction,
                                        Expr label);

// The argument that has such a function.
Argument TracedFunctionArgument();

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_TRACED_FUNCTION_H_
