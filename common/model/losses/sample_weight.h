#ifndef COHORT_COMMON_MODEL_LOSSES_SAMPLE_WEIGHT_H_
#define COHORT_COMMON_MODEL_LOSSES_SAMPLE_WEIGHT_H_

#include <absl/status/statusor.h>

#include <map>

#include "common/graph/expr.h"

namespace cohort {

// Gives the weights of a batch the dtype of `type`, and axes of 1 at the end, so that they multiply
// a value of this type: [batch], [batch, 1] and [batch, steps] weigh [batch, steps]. Errors:
// InvalidArgument if they have other axes than the value.
absl::StatusOr<Expr> AlignWeight(Expr weight, const ValueType& type);

// The weight of each record by its label (class_weight_to_sample_weights of
// keras/src/trainers/data_adapters/data_adapter_utils.py): [batch] of `dtype`. A label is a number,
// or one-hot. Labels that `weights` lacks have the weight 1. Errors: InvalidArgument for records of
// several labels.
absl::StatusOr<Expr> WeightByClass(const std::map<int64_t, double>& weights, Expr label,
                                   DType dtype);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LOSSES_SAMPLE_WEIGHT_H_
