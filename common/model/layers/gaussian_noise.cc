// GaussianNoise (keras/src/layers/regularization/gaussian_noise.py): active only in training.
#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildGaussianNoise(LayerContext* context) {
  const double stddev = context->config.Float("stddev");
  if (!context->training || stddev == 0) return context->inputs[0];
  const Expr x = context->FloatInput(0);
  return x + stddev * RandomNormalLike(x, context->config.Int("seed"));
}

}  // namespace

LayerClass GaussianNoiseLayer() {
  return {.schema = LayerSchema(
              "GaussianNoise", "Adds normal numbers of mean 0 in training.",
              {Float("stddev", "Their standard deviation.").Between(0, 1),
               Int("seed", "Combined with the seed of the job; none counts as 0.").Optional()}),
          .mask = MaskRule::kPass,
          .build = BuildGaussianNoise};
}

}  // namespace cohort
