#ifndef COHORT_COMMON_MODEL_MODEL_BUILDER_H_
#define COHORT_COMMON_MODEL_MODEL_BUILDER_H_

#include <absl/status/statusor.h>

#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/data/dataset.h"
#include "common/graph/loss_scale.h"
#include "common/graph/program.h"
#include "common/model/job_file.h"
#include "common/model/summary.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {

// The model of a job as programs.
struct BuiltModel {
  // Arguments of `train`: the columns named by `features`, in this order, the labels and sample
  // weights last; of `eval`: those of `eval_features`; [batch, column dims...] of the column's
  // dtype. Symbol 1 is "batch", its capacity the batch size, so that a short batch runs everywhere.
  // Both have the metrics "loss", with several outputs "<output>_loss" of each, and those of the
  // job. `train` pushes a gradient for each trainable variable and has the number of loss elements
  // (with several outputs: of records) as its weight; `eval` pushes nothing and drops nothing out.
  // `train` clips the gradients as the optimizers demand, except in mode sync, in which servers
  // clip their sum. With mixed precision, products of all three round their operands; in float16
  // `train` has the loss scale as its last argument, after the labels.
  Program train;
  Program eval;
  // The arguments without the labels; one output for each of the model's: the prediction, [batch,
  // ...].
  Program predict;
  std::vector<std::string> features;
  // Those of `eval`: without sample weights if the validation set has `sample_weight: null`.
  std::vector<std::string> eval_features;
  std::vector<v1::VariableSpec> variables;    // in Keras' order of creation
  std::vector<v1::OptimizerSpec> optimizers;  // VariableSpec.optimizer counts them
  ModelSummary summary;
};

// Builds the programs for the columns of the data. With `lines` (may be null) errors name lines of
// the job file. Errors: InvalidArgument that names the layer; Unimplemented for features that this
// version lacks.
absl::StatusOr<BuiltModel> BuildModel(const v1::JobSpec& job, std::span<const FeatureType> features,
                                      const JobLines* lines = nullptr);

// How the job scales its loss: only in float16.
LossScaling LossScalingOf(const v1::JobSpec& job);

// Errors: InvalidArgument if an Input names a column of the data that is not a feature, with the
// reason and its line in the data.
absl::Status CheckInputs(const JobFile& job, const Dataset& data);

// Returns features for BuildModel if the data is not available: a column for each Input, of the
// shape and dtype that it declares, and a label. Errors: InvalidArgument if an Input declares no
// shape.
absl::StatusOr<std::vector<FeatureType>> DeclaredFeatures(const v1::JobSpec& job);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_MODEL_BUILDER_H_
