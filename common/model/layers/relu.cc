// ReLU (keras/src/layers/activations/relu.py).
#include "common/model/activation_functions.h"

namespace cohort {

LayerClass ReLULayer() {
  return {.schema = LayerSchema(
              "ReLU", "max(x, 0), with bounds and a slope below.",
              {Float("max_value", "Largest value; none: no limit.").Optional().AtLeast(0),
               Float("negative_slope", "Slope below the threshold.").Default(0.0).AtLeast(0),
               Float("threshold", "The value below which x counts as 0.").Default(0.0).AtLeast(0)}),
          .mask = MaskRule::kPass,
          .build = [](LayerContext* context) -> absl::StatusOr<LayerOutput> {
            return ReluWith(context->FloatInput(0), ReluOptionsOf(context->config));
          }};
}

}  // namespace cohort
