#ifndef COHORT_COMMON_MODEL_LAYERS_DROPOUT_MASK_H_
#define COHORT_COMMON_MODEL_LAYERS_DROPOUT_MASK_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>

#include "common/model/layers/layer.h"

namespace cohort {

// Arguments of layers that drop out.
Argument NoiseShapeArgument();
Argument DropoutSeedArgument();

// Dropout of input 0 by the arguments `rate` and `seed`. The mask has the size `noise_shape[i]`
// along axis i, 1 or that of the input, which -1 stands for; empty: the shape of the input. Outside
// training it does nothing. Errors: InvalidArgument for another shape.
absl::StatusOr<LayerOutput> DropOut(LayerContext* context, std::span<const int64_t> noise_shape);

// 1 for the elements of input 0 that such a dropout keeps and 0 for the others, in a shape that
// broadcasts. The rate is below 1.
absl::StatusOr<Expr> KeptShare(LayerContext* context, std::span<const int64_t> noise_shape);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_DROPOUT_MASK_H_
