#ifndef COHORT_COMMON_MODEL_LAYERS_MASKS_H_
#define COHORT_COMMON_MODEL_LAYERS_MASKS_H_

#include <absl/status/statusor.h>

#include "common/model/layers/layer.h"

namespace cohort {

// Masks name the steps of sequences that count (`_keras_mask` in Keras): bool, with the first axes
// of the value that they belong to, as [batch, steps] of [batch, steps, features].

// Builds a call of a layer, adds the penalty of its activity_regularizer to the loss, and gives its
// output the mask that LayerClass::mask promises. Errors: those of `build`.
absl::StatusOr<LayerOutput> BuildLayer(const LayerClass& layer_class, LayerContext* context);

// The steps whose number is not `value`: bool, of the type of x.
Expr NotEqual(Expr x, double value);
// A value as a mask: what is not 0.
Expr AsMask(Expr x);
// The steps that one of the two masks has. Both have one type.
Expr EitherMask(Expr a, Expr b);
// A mask with axes of 1 after its own, so that it broadcasts over a value of `rank` axes.
Expr MaskOver(Expr mask, size_t rank);
// x, and 0 at the steps that the mask leaves out.
Expr WithoutMasked(Expr x, Expr mask);

// Checks that the mask has the first axes of a value. Error: InvalidArgument.
absl::Status CheckMask(Expr mask, const ValueType& type);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_MASKS_H_
