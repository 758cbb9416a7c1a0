// UnitNormalization (keras/src/layers/normalization/unit_normalization.py).
#include "common/model/layers/axes.h"
#include "common/model/layers/layer.h"
#include "common/model/layers/normalize.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildUnitNormalization(LayerContext* context) {
  const Expr x = context->FloatInput(0);
  COHORT_ASSIGN_OR_RETURN(const auto axes, LayerAxes(context->config.Ints("axis"), x.type()));
  return UnitLength(x, axes, 1e-12);
}

}  // namespace

LayerClass UnitNormalizationLayer() {
  return {.schema = LayerSchema(
              "UnitNormalization", "x, divided by its length along axes.",
              {Ints("axis", "The axes of a record.").Default(std::vector<int64_t>{-1})}),
          .mask = MaskRule::kPass,
          .build = BuildUnitNormalization};
}

}  // namespace cohort
