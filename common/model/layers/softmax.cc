// Softmax (keras/src/layers/activations/softmax.py).
#include "common/graph/expr.h"
#include "common/model/activation_functions.h"

namespace cohort {
namespace {

constexpr double kMasked = -1e9;  // _large_negative_number

absl::StatusOr<LayerOutput> BuildSoftmax(LayerContext* context) {
  Expr x = context->FloatInput(0);
  const Expr mask = context->inputs[0].mask;
  if (mask.valid()) {
    if (mask.type().dims != x.type().dims) {
      return InvalidArgument("its input {} has the mask {}, and a mask must have its shape",
                             TypeToString(x.type()), TypeToString(mask.type()));
    }
    x = x + kMasked * (1.0 - Cast(mask, x.dtype()));
  }
  return SoftmaxOver(x, context->config.Ints("axis"));
}

}  // namespace

LayerClass SoftmaxLayer() {
  return {.schema = LayerSchema(
              "Softmax", "exp(x), divided by its sum over the axes.",
              {Ints("axis", "The axis, or a list of them; negative ones count from the end.")
                   .Default(std::vector<int64_t>{-1})}),
          .mask = MaskRule::kPass,
          .build = BuildSoftmax};
}

}  // namespace cohort
