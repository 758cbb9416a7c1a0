#ifndef COHORT_DEPLOY_PREDICT_PREDICT_H_
#define COHORT_DEPLOY_PREDICT_PREDICT_H_

#include <absl/status/statusor.h>

#include <string>

#include "deploy/predict/predict_options.h"

namespace cohort {

// Writes the outputs of the model of a checkpoint for each record of the data, in their order. The
// records pass the transforms of the job, and need no label. Returns what is printed. Errors:
// NotFound and DataLoss of a checkpoint or of the data; InvalidArgument if the data lacks a column
// that the model reads.
absl::StatusOr<std::string> Predict(const PredictOptions& options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_PREDICT_PREDICT_H_
