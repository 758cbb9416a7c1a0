#ifndef COHORT_COMMON_MODEL_JOB_FILE_H_
#define COHORT_COMMON_MODEL_JOB_FILE_H_

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/model/job_lines.h"
#include "common/schema/model_layer.h"
#include "proto/job.pb.h"

namespace cohort {

// A job as the user wrote it, and its meaning.
struct JobFile {
  v1::JobSpec spec;  // checked, with all defaults
  JobLines lines;
  std::string yaml;
  // In the order of Keras' `model.layers`. Empty if the job file does not tell it: the order of a
  // functional model depends on its graph.
  std::vector<ModelLayer> layers;
};

// Reads a job. The schema is JobSpec (proto/job.proto): each key is a field of that name. As in
// Keras, these forms are accepted too:
//
//   model: {sequential: [...]}                  instead of `layers`
//   model: {functional: [...]}                  instead of `layers`
//   model: {keras_json: FILE}                   instead of `layers`, and the defaults of `compile`
//   - Dense: {units: 10, activation: relu}      a layer
//   - Flatten                                   a layer without arguments
//   inputs: age                                 one name instead of a list
//   input_shape: [28, 28]                       in the first layer of a sequential model: an Input
//   kernel_initializer: zeros                   any class without arguments
//   kernel_initializer: {RandomUniform: {minval: -1, maxval: 1}}
//   kernel_initializer: {class_name: RandomUniform, config: {minval: -1, maxval: 1}}
//   optimizers: [{variables: "embedding/*", optimizer: adagrad}, {variables: "*", optimizer: adam}]
//   loss: mse, from_logits: true                loss: {MeanSquaredError: {...}}
//   loss: {age: mse, name: bce}                 by output, as metrics, loss_weights and label
//   strategy: {name: ParameterServerStrategy}   and FixedShardsPartitioner: TensorFlow's names
//   csv: {path: a.csv}                          a source, instead of source: {csv: {path: a.csv}}
//   {column: age, Rescaling: {scale: 0.1}}      a transform
//   {column: age, scale: 0.1}                   the same; also offset, equals, and lookup: string
//   visitation: exactly_once                    enums by their lower-case names
//
// An empty value (`key:`) is the default. A validation set without a source has other rows of the
// source of the training set, with the same transforms and label.
//
// A relative path of `keras_json` is in the directory of the job file. Errors: InvalidArgument
// "FILE:LINE: what is wrong". The error of an unknown key names the nearest known key.
//
// `strategy` replaces the name that the file gives; "": the file's, or parameter_server.
absl::StatusOr<JobFile> ParseJob(std::string_view yaml, std::string_view file_name,
                                 std::string_view strategy = "");

// Fills in the arguments of classes that a manifest of an older version lacks, and the parts of the
// job that it has in another form, from the YAML in the same manifest. Errors: those of ParseJob.
absl::Status UpgradeJob(std::string_view yaml, v1::JobSpec* spec);

// Reads a job from a file. Errors: as above, and NotFound.
absl::StatusOr<JobFile> ReadJobFile(const std::string& path, std::string_view strategy = "");

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_JOB_FILE_H_
