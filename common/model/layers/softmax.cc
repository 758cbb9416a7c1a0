// Softmax (keras/src/layers/activations/softmax.py).
#include "common/model/activation_functions.h"

namespace cohort {

LayerClass SoftmaxLayer() {
  return {.schema = LayerSchema(
              "Softmax", "exp(x), divided by its sum over the axes.",
              {Ints("axis", "The axis, or a list of them; negative ones count from the end.")
                   .Default(std::vector<int64_t>{-1})}),
          .build = [](LayerContext* context) {
            return SoftmaxOver(context->FloatInput(0), context->config.Ints("axis"));
          }};
}

}  // namespace cohort
