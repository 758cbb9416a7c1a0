// Dropout (keras/src/layers/regularization/dropout.py): active only in training.
#include "common/model/layers/dropout_mask.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildDropout(LayerContext* context) {
  return DropOut(context, context->config.Ints("noise_shape"));
}

}  // namespace

LayerClass DropoutLayer() {
  return {.schema = LayerSchema(
              "Dropout", "Sets random elements to 0 in training, and scales the others.",
              {Float("rate", "Share of the elements that become 0.").Between(0, 1),
               NoiseShapeArgument(), DropoutSeedArgument()}),
          .mask = MaskRule::kPass,
          .build = BuildDropout};
}

}  // namespace cohort
