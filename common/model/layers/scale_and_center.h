#ifndef COHORT_COMMON_MODEL_LAYERS_SCALE_AND_CENTER_H_
#define COHORT_COMMON_MODEL_LAYERS_SCALE_AND_CENTER_H_

#include <absl/status/statusor.h>

#include <vector>

#include "common/model/layers/layer.h"

namespace cohort {

// The arguments of a normalization for its weights gamma and beta, in Keras' order: center, scale,
// initializers, regularizers, constraints.
std::vector<Argument> ScaleAndCenterArguments();

// x * gamma + beta, as far as `scale` and `center` want them. The weights have the shape `dims`,
// and `broadcast` is the shape in which they meet x. Errors: those of LayerContext::Weight.
absl::StatusOr<Expr> ScaleAndCenter(LayerContext* context, Expr x, const std::vector<int64_t>& dims,
                                    const std::vector<int64_t>& broadcast);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_SCALE_AND_CENTER_H_
