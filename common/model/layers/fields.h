#ifndef COHORT_COMMON_MODEL_LAYERS_FIELDS_H_
#define COHORT_COMMON_MODEL_LAYERS_FIELDS_H_

#include <absl/status/statusor.h>

#include "common/model/layers/layer.h"

namespace cohort {

// The vectors of the fields of a record, [batch, fields, d], of a layer whose inputs are one such
// value, or a vector [batch, d] of each field. Errors: InvalidArgument for inputs of other shapes,
// and for vectors that differ in width.
absl::StatusOr<Expr> FieldVectors(const LayerContext& context);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_FIELDS_H_
