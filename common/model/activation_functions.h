#ifndef COHORT_COMMON_MODEL_ACTIVATION_FUNCTIONS_H_
#define COHORT_COMMON_MODEL_ACTIVATION_FUNCTIONS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "common/model/layers/layer.h"

namespace cohort {

// The functions that activations and layers such as ReLU share, with the gradients of Keras on
// TensorFlow.

struct ReluOptions {
  double negative_slope = 0;
  std::optional<double> max_value;
  double threshold = 0;
};
// Reads the arguments with these names.
ReluOptions ReluOptionsOf(const Config& config);

Expr ReluWith(Expr x, const ReluOptions& options);
Expr LeakyRelu(Expr x, double negative_slope);
Expr Elu(Expr x, double alpha);
Expr Celu(Expr x, double alpha);
Expr Selu(Expr x);
Expr Gelu(Expr x, bool approximate);
Expr HardSigmoid(Expr x);
Expr HardShrink(Expr x, double threshold);
Expr SoftShrink(Expr x, double threshold);
Expr SparsePlus(Expr x);

// The argument `axis` of a function along an axis; its default is the last one.
Argument AxisArgument();

// Applies a function over the last axis to these axes together. Errors: InvalidArgument for an axis
// that x lacks, and for the batch.
absl::StatusOr<LayerOutput> OverLastAxis(Expr x, std::vector<int64_t> axes, Expr (*f)(Expr));
// The softmax over these axes together, with its logits.
absl::StatusOr<LayerOutput> SoftmaxOver(Expr x, std::vector<int64_t> axes);
// Error: InvalidArgument also for an odd axis.
absl::StatusOr<LayerOutput> GatedLinearUnit(Expr x, int64_t axis);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_ACTIVATION_FUNCTIONS_H_
