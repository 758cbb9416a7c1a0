// GaussianDropout (keras/src/layers/regularization/gaussian_dropout.py): active only in training.
#include <cmath>

#include "common/graph/expr.h"
#include "common/model/layers/dropout_mask.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildGaussianDropout(LayerContext* context) {
  const double rate = context->config.Float("rate");
  if (!context->training || rate == 0) return context->inputs[0];
  const Expr x = context->FloatInput(0);
  const double stddev = std::sqrt(rate / (1 - rate));
  return x * (1.0 + stddev * RandomNormalLike(x, context->config.Int("seed")));
}

}  // namespace

LayerClass GaussianDropoutLayer() {
  return {.schema =
              LayerSchema("GaussianDropout", "Multiplies by normal numbers of mean 1 in training.",
                          {Float("rate", "Their variance is rate / (1 - rate).").Below(0, 1),
                           DropoutSeedArgument()}),
          .mask = MaskRule::kPass,
          .build = BuildGaussianDropout};
}

}  // namespace cohort
