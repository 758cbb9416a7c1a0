// Activation (keras/src/layers/activations/activation.py).
#include "common/model/activations.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildActivation(LayerContext* context) {
  const v1::ClassConfig& activation = context->config.Object("activation");
  // A linear one hands on the logits and the dtype of its input.
  if (activation.class_name() == "linear") return context->inputs[0];
  return Activate(activation, context->FloatInput(0));
}

}  // namespace

LayerClass ActivationLayer() {
  return {.schema = LayerSchema("Activation", "Applies an activation function.",
                                {ActivationArgument("activation", "", "The function.")}),
          .mask = MaskRule::kPass,
          .build = BuildActivation};
}

}  // namespace cohort
