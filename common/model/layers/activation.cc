// Activation functions and the Activation layer (keras/src/activations/activations.py).
#include "common/graph/expr.h"
#include "common/model/layers/layer.h"
#include "common/model/planned_names.h"

namespace cohort {

absl::Status CheckActivation(std::string_view activation) {
  constexpr std::string_view kKnown[] = {"relu", "sigmoid", "tanh", "softmax", "linear"};
  if (activation.empty()) return absl::OkStatus();
  for (std::string_view known : kKnown) {
    if (activation == known) return absl::OkStatus();
  }
  return NoSuchName("activation", activation, kKnown);
}

absl::StatusOr<LayerOutput> Activate(std::string_view activation, LayerOutput x) {
  COHORT_RETURN_IF_ERROR(CheckActivation(activation));
  if (activation == "relu") return LayerOutput{Relu(x.value), {}};
  if (activation == "tanh") return LayerOutput{Tanh(x.value), {}};
  if (activation == "sigmoid") return LayerOutput{Sigmoid(x.value), x.value};
  if (activation == "softmax") {
    if (x.value.valid() && x.value.rank() < 2) {
      return InvalidArgument("softmax needs two axes at least, not {}",
                             TypeToString(x.value.type()));
    }
    return LayerOutput{Softmax(x.value), x.value};
  }
  return x;
}

absl::StatusOr<LayerOutput> BuildActivation(LayerContext* context) {
  const std::string& activation = context->spec->activation();
  if (activation == "linear") return context->inputs[0];
  return Activate(activation, {context->FloatInput(0), {}});
}

}  // namespace cohort
