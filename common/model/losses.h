#ifndef COHORT_COMMON_MODEL_LOSSES_H_
#define COHORT_COMMON_MODEL_LOSSES_H_

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/model/layers/layer.h"

namespace cohort {

// Finds Keras' loss by name or alias: "mse" and "MeanSquaredError" are "mean_squared_error".
// Errors: InvalidArgument that lists the known names.
absl::StatusOr<std::string_view> FindLoss(std::string_view name);

// Returns the loss of every element, before the reduction: [batch, ...] of the prediction's dtype.
// It computes as Keras on TensorFlow: from the logits if the prediction is a sigmoid or softmax of
// them, else from probabilities clipped to [1e-7, 1 - 1e-7] (keras/src/backend/tensorflow/nn.py).
// `label` is [batch, ...] of any dtype. Errors: InvalidArgument if label and prediction do not
// match.
absl::StatusOr<Expr> ElementwiseLoss(std::string_view loss, bool from_logits,
                                     LayerOutput prediction, Expr label);

// The partial value of a metric: the mean is total / count.
struct MetricValue {
  Expr total;
  Expr count;
};

// Checks the name of a metric. Errors: InvalidArgument that lists the known names.
absl::Status CheckMetric(std::string_view name);

// Makes accuracy (or acc; resolved to one of the others as keras/src/trainers/compile_utils.py
// does), binary_accuracy or sparse_categorical_accuracy. Errors: as above.
absl::StatusOr<MetricValue> MakeMetric(std::string_view name, LayerOutput prediction, Expr label);

// squeeze_or_expand_to_same_rank of keras/src/losses/loss.py: ranks that differ by one, with a last
// axis of 1, are made equal.
void AlignRanks(Expr* label, LayerOutput* prediction);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LOSSES_H_
