// AlphaDropout (keras/src/layers/regularization/alpha_dropout.py): keeps mean and variance of what
// selu makes. Active only in training.
#include <cmath>

#include "common/model/layers/dropout_mask.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildAlphaDropout(LayerContext* context) {
  const double rate = context->config.Float("rate");
  if (!context->training || rate == 0) return context->inputs[0];
  const Expr x = context->FloatInput(0);
  // The value of a dropped element: the limit of selu below.
  constexpr double kDropped =
      -1.6732632423543772848170429916717 * 1.0507009873554804934193349852946;
  const double a = 1 / std::sqrt((1 - rate) * (1 + rate * kDropped * kDropped));
  COHORT_ASSIGN_OR_RETURN(const Expr kept, KeptShare(context, context->config.Ints("noise_shape")));
  return a * (x * kept + kDropped * (1.0 - kept)) - a * kDropped * rate;
}

}  // namespace

LayerClass AlphaDropoutLayer() {
  return {.schema = LayerSchema(
              "AlphaDropout",
              "Sets random elements to the limit of selu in training; keeps mean and variance.",
              {Float("rate", "Share of the elements.").Below(0, 1), NoiseShapeArgument(),
               DropoutSeedArgument()}),
          .mask = MaskRule::kPass,
          .build = BuildAlphaDropout};
}

}  // namespace cohort
