// ELU (keras/src/layers/activations/elu.py).
#include "common/model/activation_functions.h"

namespace cohort {

LayerClass ELULayer() {
  return {.schema = LayerSchema("ELU", "x, and alpha (exp(x) - 1) below 0.",
                                {Float("alpha", "The limit below, negated.").Default(1.0)}),
          .mask = MaskRule::kPass,
          .build = [](LayerContext* context) -> absl::StatusOr<LayerOutput> {
            return Elu(context->FloatInput(0), context->config.Float("alpha"));
          }};
}

}  // namespace cohort
