// PReLU (keras/src/layers/activations/prelu.py).
#include "common/graph/expr.h"
#include "common/model/layers/axes.h"
#include "common/model/layers/layer.h"
#include "common/model/regularizers.h"
#include "common/optimizers/constraints.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildPReLU(LayerContext* context) {
  const Expr x = context->FloatInput(0);
  const ValueType type = x.type();
  std::vector<int64_t> dims;
  for (size_t i = 1; i < type.dims.size(); ++i) dims.push_back(type.dims[i].size);
  const std::vector<int64_t> shared = context->config.Ints("shared_axes");
  COHORT_RETURN_IF_ERROR(LayerAxes(shared, type).status());
  for (const int64_t axis : shared) {
    if (axis < 0) return InvalidArgument("shared_axes count from 1, and {} does not", axis);
    dims[static_cast<size_t>(axis - 1)] = 1;
  }
  COHORT_ASSIGN_OR_RETURN(const Expr alpha, context->Weight("alpha", dims, "alpha_initializer"));
  return Relu(x) - alpha * Relu(-x);
}

}  // namespace

LayerClass PReLULayer() {
  return {.schema = LayerSchema(
              "PReLU", "x, and alpha x below 0, with a weight alpha for each element of a record.",
              {InitializerArgument("alpha_initializer", "Zeros", "First alpha."),
               RegularizerArgument("alpha_regularizer"), ConstraintArgument("alpha_constraint"),
               Ints("shared_axes", "Axes, from 1, along which one alpha serves all.").Optional()}),
          .mask = MaskRule::kPass,
          .build = BuildPReLU};
}

}  // namespace cohort
