#ifndef COHORT_COMMON_MODEL_JOB_FILE_H_
#define COHORT_COMMON_MODEL_JOB_FILE_H_

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace cohort {

// The lines of the keys of a job file, so that a later error can name the line.
struct JobLines {
  std::string file;                              // as the user named it
  std::map<std::string, int, std::less<>> keys;  // "model.layers[2].units" -> 1-based line

  // Returns "job.yaml:14": the line of the key, or of the nearest key around it.
  std::string Where(std::string_view path) const;
};

// A job as the user wrote it, and its meaning.
struct JobFile {
  v1::JobSpec spec;  // checked, with all defaults
  JobLines lines;
  std::string yaml;
};

// Reads a job. The schema is JobSpec (proto/job.proto): each key is a field of that name. As in
// Keras, these forms are accepted too:
//
//   model: {sequential: [...]}                  instead of `layers`
//   model: {functional: [...]}                  instead of `layers`
//   - Dense: {units: 10, activation: relu}      a layer
//   - Flatten                                   a layer without arguments
//   inputs: age                                 one name instead of a list
//   use_bias: false                             for Dense
//   kernel_initializer: zeros                   an initializer without arguments
//   kernel_initializer: {RandomUniform: {minval: -1, maxval: 1}}
//   kernel_initializer: {class_name: RandomUniform, config: {minval: -1, maxval: 1}}
//   optimizer: adam                             and the same two forms with arguments
//   loss: mse
//   loss: {BinaryCrossentropy: {from_logits: true}}
//   partitioner: {FixedShards: {num_shards: 2}}
//   visitation: exactly_once                    enums by their lower-case names
//
// An empty value (`key:`) is the default. A validation set without a source has other rows of the
// source of the training set, with the same transforms and label.
//
// Errors: InvalidArgument "FILE:LINE: what is wrong". The error of an unknown key names the nearest
// known key.
absl::StatusOr<JobFile> ParseJob(std::string_view yaml, std::string_view file_name);

// Reads a job from a file. Errors: as above, and NotFound.
absl::StatusOr<JobFile> ReadJobFile(const std::string& path);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_JOB_FILE_H_
