// Concatenate (keras/src/layers/merging/concatenate.py).
#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildConcatenate(LayerContext* context) {
  bool all_integers = true;
  for (const LayerOutput& input : context->inputs) {
    if (!input.value.valid()) return LayerOutput{};
    all_integers = all_integers && input.value.dtype() == DType::kInt64;
  }
  std::vector<Expr> values;
  for (size_t i = 0; i < context->inputs.size(); ++i) {
    values.push_back(all_integers ? context->inputs[i].value : context->FloatInput(i));
  }
  const auto rank = static_cast<int64_t>(values[0].rank());
  const int64_t given = context->config.Int("axis");
  const int64_t axis = given < 0 ? given + rank : given;
  if (axis < 1 || axis >= rank) {
    return InvalidArgument("axis {} is not one of {} (axis 0 is the batch)", given,
                           TypeToString(values[0].type()));
  }
  return LayerOutput{Concat(values, axis), {}};
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
