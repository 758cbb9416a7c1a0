// Concatenate (keras/src/layers/merging/concatenate.py).
#include "common/graph/expr.h"
#include "common/model/layers/axes.h"
#include "common/model/layers/masks.h"

namespace cohort {
namespace {

// The mask of a value that is unmasked: ones, as floats.
Expr AllSteps(Expr x) {
  const int64_t last = static_cast<int64_t>(x.rank()) - 1;
  std::vector<int64_t> dims = ReshapeDims(x.type().dims);
  dims.pop_back();
  return BroadcastLike(x.builder()->Scalar(1, DType::kFloat32),
                       Reshape(Slice(x, last, 0, 1), std::move(dims)));
}

// Along the steps masks are joined, too. Along the features a step counts if it does in any input.
absl::StatusOr<Expr> JoinedMask(const LayerContext& context, int64_t axis) {
  bool any = false, all = true;
  for (const LayerOutput& input : context.inputs) {
    any = any || input.mask.valid();
    all = all && input.mask.valid();
  }
  const int64_t last = static_cast<int64_t>(context.inputs[0].value.rank()) - 1;
  if (!any || (axis == last && !all)) return Expr();
  std::vector<Expr> masks;
  for (const LayerOutput& input : context.inputs) {
    if (input.mask.valid() && static_cast<int64_t>(input.mask.rank()) != last) {
      return InvalidArgument("the mask {} is not that of the steps of {}",
                             TypeToString(input.mask.type()), TypeToString(input.value.type()));
    }
    masks.push_back(input.mask.valid() ? Cast(input.mask, DType::kFloat32) : AllSteps(input.value));
  }
  if (axis < last) {
    return Greater(Concat(masks, axis), context.builder->Scalar(0.5, DType::kFloat32));
  }
  Expr mask = context.inputs[0].mask;
  for (size_t i = 1; i < masks.size(); ++i) mask = EitherMask(mask, context.inputs[i].mask);
  return mask;
}

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
  LayerOutput output = Concat(values, axes[0]);
  COHORT_ASSIGN_OR_RETURN(output.mask, JoinedMask(*context, axes[0]));
  return output;
}

}  // namespace

LayerClass ConcatenateLayer() {
  return {.schema = LayerSchema(
              "Concatenate", "Joins its inputs along an axis.",
              {Int("axis", "The axis; 0 is the batch, and negative ones count from the end.")
                   .Default(-1)}),
          .max_inputs = kAnyNumberOfInputs,
          .mask = MaskRule::kOwn,
          .build = BuildConcatenate};
}

}  // namespace cohort
