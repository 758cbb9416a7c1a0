// LeakyReLU (keras/src/layers/activations/leaky_relu.py).
#include "common/model/activation_functions.h"

namespace cohort {

LayerClass LeakyReLULayer() {
  return {
      .schema = LayerSchema("LeakyReLU", "x, and negative_slope x below 0.",
                            {Float("negative_slope", "Slope below 0.").Default(0.3).AtLeast(0)}),
      .mask = MaskRule::kPass,
      .build = [](LayerContext* context) -> absl::StatusOr<LayerOutput> {
        return LeakyRelu(context->FloatInput(0), context->config.Float("negative_slope"));
      }};
}

}  // namespace cohort
