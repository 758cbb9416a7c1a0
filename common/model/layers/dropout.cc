// Dropout (keras/src/layers/regularization/dropout.py): active only in training.
#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildDropout(LayerContext* context) {
  const double rate = context->config.Float("rate");
  if (!context->training || rate == 0) return context->inputs[0];
  const Expr x = context->FloatInput(0);
  if (!x.valid()) return LayerOutput{};
  if (rate == 1) return LayerOutput{BroadcastLike(context->builder->Scalar(0, x.dtype()), x), {}};
  // An unset seed is 0: the numbers depend on the seed of the job, too.
  return LayerOutput{cohort::Dropout(x, rate, context->config.Int("seed")).first, {}};
}

}  // namespace

LayerClass DropoutLayer() {
  return {.schema = LayerSchema(
              "Dropout", "Sets random elements to 0 in training, and scales the others.",
              {Float("rate", "Share of the elements that become 0.").Between(0, 1),
               Planned("noise_shape"),
               Int("seed", "Combined with the seed of the job; none counts as 0.").Optional()}),
          .build = BuildDropout};
}

}  // namespace cohort
