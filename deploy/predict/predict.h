#ifndef COHORT_DEPLOY_PREDICT_PREDICT_H_
#define COHORT_DEPLOY_PREDICT_PREDICT_H_

#include <absl/status/statusor.h>

#include <string>

#include "deploy/predict/predict_options.h"

namespace cohort {

// Writes the outputs of the model of a checkpoint for each record of the data, in their order. The
// records pass the transforms of the job, and need no label.
//
//   1 Processes predict parts of the records, each a sequence of whole batches (part_processes.h,
//     predictor.h). A part is a set of files beside the output (prediction_part.h).
//   2 When all are whole, they are joined to the output (prediction_format.h). It exists whole or
//     not at all, and its bytes do not depend on the number of processes.
//
// `part` and `join` are these two steps by themselves, for processes on several machines. Returns
// what is printed. Errors: exit 64 for flags that do not fit; those of the parts.
absl::StatusOr<std::string> Predict(const PredictOptions& options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_PREDICT_PREDICT_H_
