#ifndef COHORT_COMMON_MODEL_JOB_FILE_H_
#define COHORT_COMMON_MODEL_JOB_FILE_H_

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace cohort {

// Where the keys of a job file stand, so that an error found later can still name a line.
struct JobLines {
  std::string file;                              // as the user named it
  std::map<std::string, int, std::less<>> keys;  // "model.layers[2].units" -> 1-based line

  // "job.yaml:14", the line of the key, or of the nearest key around it.
  std::string Where(std::string_view path) const;
};

// A job as the user wrote it, and what it means.
struct JobFile {
  v1::JobSpec spec;  // checked, every default written down
  JobLines lines;
  std::string yaml;
};

// Reads a job. The schema is JobSpec (proto/job.proto): each key is a field of that name. Besides,
// as in Keras:
//
//   model: {sequential: [...]}, {functional: [...]}     instead of `layers`
//   - Dense: {units: 10, activation: relu}              a layer; `- Flatten` where it needs nothing
//   inputs: age                                         one name instead of a list
//   use_bias: false                                     Dense
//   kernel_initializer: zeros, {RandomUniform: {minval: -1, maxval: 1}}, {class_name: .., config:
//   ..} optimizer: adam, {Adam: {learning_rate: 0.01}}, {class_name: .., config: ..} loss: mse,
//   {BinaryCrossentropy: {from_logits: true}} partitioner: {FixedShards: {num_shards: 2}}
//   visitation: exactly_once                            enums by their lower-case names
//
// An empty value (`key:`) is the default. A validation set without a source is other rows of the
// training set's, with the same transforms and label.
//
// Errors: InvalidArgument "FILE:LINE: what is wrong"; an unknown key comes with the nearest known
// one.
absl::StatusOr<JobFile> ParseJob(std::string_view yaml, std::string_view file_name);

// The same from a file. Errors: NotFound, besides.
absl::StatusOr<JobFile> ReadJobFile(const std::string& path);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_JOB_FILE_H_
