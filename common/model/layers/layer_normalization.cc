// LayerNormalization (keras/src/layers/normalization/layer_normalization.py).
#include "common/model/layers/axes.h"
#include "common/model/layers/normalize.h"
#include "common/model/layers/scale_and_center.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildLayerNormalization(LayerContext* context) {
  const Expr x = context->FloatInput(0);
  const ValueType type = x.type();
  COHORT_ASSIGN_OR_RETURN(const auto axes, LayerAxes(context->config.Ints("axis"), type));
  if (axes.empty()) return InvalidArgument("axis names no axis");
  std::vector<int64_t> dims;
  for (const int64_t axis : axes) dims.push_back(type.dims[static_cast<size_t>(axis)].size);
  // Weights of the last axis broadcast by themselves.
  const bool last = axes.size() == 1 && axes[0] == static_cast<int64_t>(type.dims.size()) - 1;
  COHORT_ASSIGN_OR_RETURN(
      const Expr y, ScaleAndCenter(context, Standardized(x, axes, context->config.Float("epsilon")),
                                   dims, last ? dims : BroadcastOver(axes, type)));
  return y;
}

}  // namespace

LayerClass LayerNormalizationLayer() {
  std::vector<Argument> arguments = {
      Ints("axis", "The axes of a record whose mean becomes 0 and whose variance becomes 1.")
          .Default(std::vector<int64_t>{-1}),
      Float("epsilon", "Added to the variance.").Default(0.001).AtLeast(0)};
  for (Argument& argument : ScaleAndCenterArguments()) arguments.push_back(std::move(argument));
  arguments.push_back(Planned(Bool("rms_scaling", "").Default(false)));
  return {.schema = LayerSchema("LayerNormalization",
                                "Standardizes each record along axes; then gamma x + beta.",
                                std::move(arguments)),
          .mask = MaskRule::kPass,
          .build = BuildLayerNormalization};
}

}  // namespace cohort
