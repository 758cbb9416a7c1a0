#ifndef COHORT_COMMON_MODEL_KERAS_JSON_KERAS_FLATTEN_H_
#define COHORT_COMMON_MODEL_KERAS_JSON_KERAS_FLATTEN_H_

#include <absl/status/status.h>

#include "common/model/keras_json/keras_model.h"
#include "proto/job.pb.h"

namespace cohort {

// Writes a model with its nested models as one list of layers into `spec`. A layer of a nested
// model is named "inner/dense". The second call of a layer is "dense:1", which shares the variables
// of "dense". What does not lead to an output is left out. Errors: InvalidArgument that names the
// layer, for calls that depend on each other and for wrong numbers of inputs.
absl::Status FlattenKerasModel(const KerasModel& model, v1::ModelSpec* spec);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_KERAS_JSON_KERAS_FLATTEN_H_
