// Concatenate (keras/src/layers/merging/concatenate.py).
#include "common/graph/expr.h"
#include "common/model/layers/axes.h"
#include "common/model/layers/layer.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildConcatenate(LayerContext* context) {
  bool all_integers = true;
  for (const LayerOutput& input : context->inputs) {
    all_integers = all_integers && input.value.dtype() == DType::kInt64;
  }
  std::vector<Expr> values;
  for (size_t i = 0; i < context->inputs.size(); ++i) {
    values.push_back(all_integers ? context->inputs[i].value : context->FloatInput(i));
  }
  const int64_t given[] = {context->config.Int("axis")};
  COHORT_ASSIGN_OR_RETURN(const auto axes, LayerAxes(given, values[0].type()));
  return Concat(values, axes[0]);
}

}  // namespace

LayerClass ConcatenateLayer() {
  return {.schema = LayerSchema(
              "Concatenate", "Joins its inputs along an axis.",
              {Int("axis", "The axis; 0 is the batch, and negative ones count from the end.")
                   .Default(-1)}),
          .max_inputs = kAnyNumberOfInputs,
          .build = BuildConcatenate};
}

}  // namespace cohort
