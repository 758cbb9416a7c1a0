#ifndef COHORT_COMMON_MODEL_LAYERS_FIELDS_H_
#define COHORT_COMMON_MODEL_LAYERS_FIELDS_H_

#include <absl/status/statusor.h>

#include "common/model/layers/layer.h"

namespace cohort {

// The vectors of all fields of a record, [batch, fields, d], of a layer whose inputs have one each,
// [batch, d], or several, [batch, fields, d]. Errors: InvalidArgument for inputs of other shapes,
// and for vectors that differ in width.
absl::StatusOr<Expr> FieldVectors(const LayerContext& context);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_FIELDS_H_
