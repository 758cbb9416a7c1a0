// Masking (keras/src/layers/core/masking.py).
#include "common/graph/expr.h"
#include "common/model/layers/masks.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildMasking(LayerContext* context) {
  const Expr x = context->FloatInput(0);
  if (x.rank() < 2) {
    return InvalidArgument("the input needs an axis beside the batch, and is {}",
                           TypeToString(x.type()));
  }
  const Expr differs = Cast(NotEqual(x, context->config.Float("mask_value")), x.dtype());
  const Expr most = ReduceMax(differs, {static_cast<int64_t>(x.rank()) - 1});
  if (!most.valid()) return LayerOutput{};
  LayerOutput output;
  output.mask = Greater(most, context->builder->Scalar(0.5, x.dtype()));
  output.value = WithoutMasked(x, output.mask);
  return output;
}

}  // namespace

LayerClass MaskingLayer() {
  return {.schema = LayerSchema(
              "Masking", "Masks the steps of [batch, steps, features] that have one value alone.",
              {Float("mask_value", "A step with this value in all features does not count.")
                   .Default(0.0)}),
          .mask = MaskRule::kOwn,
          .build = BuildMasking};
}

}  // namespace cohort
