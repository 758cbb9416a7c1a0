// Rescaling (keras/src/layers/preprocessing/rescaling.py).
#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {
namespace {

// One number, or one for each element of the last axis.
absl::StatusOr<Expr> RowOf(const char* name, const std::vector<double>& values, Expr x) {
  const auto size = static_cast<int64_t>(values.size());
  if (size == 1) return x.builder()->Scalar(values[0], x.dtype());
  if (size == x.type().dims.back().size) {
    return Cast(x.builder()->Constant(Tensor::FromValues<double>({size}, values)), x.dtype());
  }
  return InvalidArgument("{} has {} numbers, and the last axis of {} has another size", name, size,
                         TypeToString(x.type()));
}

absl::StatusOr<LayerOutput> BuildRescaling(LayerContext* context) {
  const Expr x = context->FloatInput(0);
  COHORT_ASSIGN_OR_RETURN(const Expr scale, RowOf("scale", context->config.Floats("scale"), x));
  COHORT_ASSIGN_OR_RETURN(const Expr offset, RowOf("offset", context->config.Floats("offset"), x));
  return x * scale + offset;
}

}  // namespace

LayerClass RescalingLayer() {
  return {.schema = LayerSchema(
              "Rescaling", "x * scale + offset.",
              {Floats("scale", "The factor; a list: one for each element of the last axis."),
               Floats("offset", "The summand, likewise.").Default(0.0)}),
          .mask = MaskRule::kPass,
          .build = BuildRescaling};
}

}  // namespace cohort
