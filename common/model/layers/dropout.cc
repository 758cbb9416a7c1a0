// Dropout (keras/src/layers/regularization/dropout.py): active only in training.
#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {

absl::StatusOr<LayerOutput> BuildDropout(LayerContext* context) {
  const v1::LayerSpec& spec = *context->spec;
  if (!(spec.rate() >= 0 && spec.rate() <= 1)) {
    return InvalidArgument("rate must lie in [0, 1], and is {}", spec.rate());
  }
  if (!context->training || spec.rate() == 0) return context->inputs[0];
  const Expr x = context->FloatInput(0);
  if (!x.valid()) return LayerOutput{};
  if (spec.rate() == 1) {
    return LayerOutput{BroadcastLike(context->builder->Scalar(0, x.dtype()), x), {}};
  }
  return LayerOutput{Dropout(x, spec.rate(), spec.seed()).first, {}};
}

}  // namespace cohort
