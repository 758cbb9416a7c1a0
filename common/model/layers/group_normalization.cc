// GroupNormalization (keras/src/layers/normalization/group_normalization.py).
#include "common/graph/expr.h"
#include "common/model/layers/axes.h"
#include "common/model/layers/normalize.h"
#include "common/model/layers/scale_and_center.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildGroupNormalization(LayerContext* context) {
  const Expr x = context->FloatInput(0);
  const ValueType type = x.type();
  const int64_t given[] = {context->config.Int("axis")};
  COHORT_ASSIGN_OR_RETURN(const auto axes, LayerAxes(given, type));
  const auto axis = static_cast<size_t>(axes[0]);
  const int64_t size = type.dims[axis].size;
  const int64_t groups = context->config.Int("groups") == -1 ? size : context->config.Int("groups");
  if (groups < 1 || size % groups != 0) {
    return InvalidArgument("groups {} does not divide the {} channels of {}", groups, size,
                           TypeToString(type));
  }
  // The axis becomes two: [..., groups, channels of a group, ...].
  std::vector<int64_t> dims = ReshapeDims(type.dims), whole = dims, reduced;
  dims[axis] = size / groups;
  dims.insert(dims.begin() + axes[0], groups);
  std::vector<int64_t> broadcast(dims.size(), 1);
  broadcast[axis] = groups;
  broadcast[axis + 1] = size / groups;
  for (size_t i = 1; i < dims.size(); ++i) {
    if (i != axis) reduced.push_back(static_cast<int64_t>(i));
  }
  const Expr standardized =
      Standardized(Reshape(x, std::move(dims)), reduced, context->config.Float("epsilon"));
  COHORT_ASSIGN_OR_RETURN(const Expr y, ScaleAndCenter(context, standardized, {size}, broadcast));
  return Reshape(y, std::move(whole));
}

}  // namespace

LayerClass GroupNormalizationLayer() {
  std::vector<Argument> arguments = {
      Int("groups", "Groups of channels; -1: each channel is one.").Default(32).AtLeast(-1),
      Int("axis", "The axis of the channels.").Default(-1),
      Float("epsilon", "Added to the variance.").Default(0.001).AtLeast(0)};
  for (Argument& argument : ScaleAndCenterArguments()) arguments.push_back(std::move(argument));
  return {.schema = LayerSchema("GroupNormalization",
                                "Standardizes each group of channels of a record; then gamma x + "
                                "beta.",
                                std::move(arguments)),
          .mask = MaskRule::kPass,
          .build = BuildGroupNormalization};
}

}  // namespace cohort
