#ifndef COHORT_DEPLOY_LAUNCHER_INSPECT_CHECKPOINT_H_
#define COHORT_DEPLOY_LAUNCHER_INSPECT_CHECKPOINT_H_

#include <absl/status/statusor.h>

#include <string>

#include "common/checkpoint/find_checkpoint.h"

namespace cohort {

// Returns the output of `cohort inspect`: job and step, the best checkpoint, the variables with
// their shapes and slots, the shard plan, the files (with verified checksums), and the other
// checkpoints in the same directory. Errors: NotFound; DataLoss naming the file and what is wrong.
absl::StatusOr<std::string> InspectCheckpoint(const std::string& path);

// The same for the file of a traced model (common/model/traced_model.h): its layers with their
// shapes and variables, as Keras' summary() prints them. Errors: those of ReadTracedModel and
// SummarizeModel.
absl::StatusOr<std::string> InspectModel(const std::string& path);

// Returns the job of a checkpoint as JSON, for programs that build its model:
//
//   "checkpoint", "job", "step", "epoch"
//   "model": {"name", "dtype", "outputs", "output_names",
//     "functional": [{"class_name", "name", "inputs", "shares", "masks", "config"}]}
//     every layer of the model with its name, the layers that it reads, and all its arguments
//   "transforms": [{"column", "columns", "output", "dtype", "class_name", "config"}]
//     of the training set, in their order
//   "reads": [{"column", "dtype"}]: what the model needs of the numbers of a column
//   "targets": the columns of labels and weights
//   "variables": [{"name", "shape", "dtype", "trainable"}], in the order of the model
//
// An object among arguments is {"class_name", "config"}, as Keras has it. Errors: those of
// InspectCheckpoint.
absl::StatusOr<std::string> InspectCheckpointJson(const std::string& path);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_INSPECT_CHECKPOINT_H_
