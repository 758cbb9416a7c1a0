// RMSNormalization (keras/src/layers/normalization/rms_normalization.py).
#include "common/graph/expr.h"
#include "common/model/layers/axes.h"
#include "common/model/layers/layer.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildRmsNormalization(LayerContext* context) {
  const Expr x = context->FloatInput(0);
  const ValueType type = x.type();
  COHORT_ASSIGN_OR_RETURN(const auto axes, LayerAxes(context->config.Ints("axis"), type));
  if (axes.empty()) return InvalidArgument("axis names no axis");
  std::vector<int64_t> dims;
  for (const int64_t axis : axes) dims.push_back(type.dims[static_cast<size_t>(axis)].size);
  COHORT_ASSIGN_OR_RETURN(Expr scale, context->WeightOf("scale", dims, ClassOf("Ones")));
  const bool last = axes.size() == 1 && axes[0] == static_cast<int64_t>(type.dims.size()) - 1;
  if (!last) scale = Reshape(scale, BroadcastOver(axes, type));
  const Expr mean = ReduceMean(Square(x), axes, true);
  return x * Rsqrt(mean + context->config.Float("epsilon")) * scale;
}

}  // namespace

LayerClass RMSNormalizationLayer() {
  return {.schema =
              LayerSchema("RMSNormalization",
                          "Divides each record by the root of its mean square; then scale x.",
                          {Ints("axis", "The axes of a record that the mean is taken over.")
                               .Default(std::vector<int64_t>{-1}),
                           Float("epsilon", "Added to the mean square.").Default(1e-6).AtLeast(0)}),
          .build = BuildRmsNormalization};
}

}  // namespace cohort
