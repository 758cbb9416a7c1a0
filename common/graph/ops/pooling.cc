// Pooling: one value for each window over the axes between batch and channels. `window` and
// `strides` have one entry per such axis, of which there are one or two.
#include "common/graph/ops/pooling.h"

#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

constexpr int64_t kMaxPoolSize = int64_t{1} << 48;

absl::StatusOr<int64_t> SizeAttr(const Node& node, std::string_view name, size_t axis) {
  const auto sizes = IntsAttr(node, name);
  if (axis >= sizes.size() || sizes[axis] < 1 || sizes[axis] > kMaxPoolSize) {
    return InvalidArgument("{} {} must have a size of 1 or more for each pooled axis", name,
                           DimsToString(sizes));
  }
  return sizes[axis];
}

// The type of pooling x: [batch, rows..., channels] -> [batch, windows..., channels].
absl::StatusOr<ValueType> PooledType(const InferContext& context, size_t input) {
  COHORT_RETURN_IF_ERROR(CheckFloating(context, input));
  ValueType type = context.input(input);
  if (type.dims.size() != 3 && type.dims.size() != 4) {
    return InvalidArgument("input {} must have 3 or 4 axes, not {}", input, TypeToString(type));
  }
  const size_t axes = type.dims.size() - 2;
  for (const char* name : {"window", "strides"}) {
    const auto sizes = IntsAttr(context.node, name);
    if (sizes.size() != axes) {
      return InvalidArgument("{} {} must have {}, because {} of {} pooled", name,
                             DimsToString(sizes), axes == 1 ? "one size" : "two sizes",
                             axes == 1 ? "one axis" : "two axes",
                             TypeToString(type) + (axes == 1 ? " is" : " are"));
    }
  }
  for (size_t i = 0; i < axes; ++i) {
    Dim& dim = type.dims[1 + i];
    if (dim.bounded()) {
      return InvalidArgument("axis {} of {} is bounded, and pooling needs a static one", 1 + i,
                             TypeToString(context.input(input)));
    }
    COHORT_ASSIGN_OR_RETURN(const PoolAxis axis, MakePoolAxis(context.node, i, dim.size));
    dim.size = axis.out;
  }
  return type;
}

absl::StatusOr<Types> InferMaxPool(const InferContext& context) {
  COHORT_ASSIGN_OR_RETURN(ValueType type, PooledType(context, 0));
  if (context.inputs.size() == 2 && context.input(1) != context.input(0)) {
    return InvalidArgument("input 1 must have the type of input 0, {}, not {}",
                           TypeToString(context.input(0)), TypeToString(context.input(1)));
  }
  return Types{std::move(type)};
}

absl::StatusOr<Types> InferAvgPool(const InferContext& context) {
  COHORT_ASSIGN_OR_RETURN(ValueType pooled, PooledType(context, 0));
  return Types{std::move(pooled)};
}

// (grad, x) -> like x. avg_pool_grad takes x for its dims only.
absl::StatusOr<Types> InferPoolGrad(const InferContext& context) {
  COHORT_ASSIGN_OR_RETURN(const ValueType pooled, PooledType(context, 1));
  if (context.input(0) != pooled) {
    return InvalidArgument("input 0 is {}, but pooling input 1 makes {}",
                           TypeToString(context.input(0)), TypeToString(pooled));
  }
  return Types{context.input(1)};
}

// The values are x itself, or the second input. The choice of the places is constant almost
// everywhere, so no gradient flows through it.
void MaxPoolGradient(GradientContext* c) {
  const size_t values = c->num_inputs() - 1;
  if (c->needs(values)) {
    c->Set(values, c->builder()->Op("max_pool_grad", {c->grad(), c->input(0)}, c->node().attrs));
  }
}

void MaxPoolGradGradient(GradientContext* c) {
  if (c->needs(0)) {
    c->Set(0, c->builder()->Op("max_pool", {c->input(1), c->grad()}, c->node().attrs));
  }
}

void AvgPoolGradient(GradientContext* c) {
  c->Set(0, c->builder()->Op("avg_pool_grad", {c->grad(), c->input(0)}, c->node().attrs));
}

void AvgPoolGradGradient(GradientContext* c) {
  if (c->needs(0)) c->Set(0, c->builder()->Op("avg_pool", {c->grad()}, c->node().attrs));
}

}  // namespace

absl::StatusOr<PoolAxis> MakePoolAxis(const Node& node, size_t axis, int64_t in) {
  PoolAxis a;
  a.in = in;
  COHORT_ASSIGN_OR_RETURN(a.window, SizeAttr(node, "window", axis));
  COHORT_ASSIGN_OR_RETURN(a.stride, SizeAttr(node, "strides", axis));
  const std::string_view padding = StringAttr(node, "padding");
  if (padding == "same") {
    a.out = (in - 1) / a.stride + 1;
    a.before = std::max<int64_t>((a.out - 1) * a.stride + a.window - in, 0) / 2;
  } else if (padding != "valid") {
    return InvalidArgument("padding must be \"valid\" or \"same\", not \"{}\"", padding);
  } else if (a.window > in) {
    return InvalidArgument(
        "a window of {} does not fit into {} elements; use a smaller one, or padding \"same\"",
        a.window, in);
  } else {
    a.out = (in - a.window) / a.stride + 1;
  }
  return a;
}

std::vector<OpSchema> PoolingOps() {
  const std::vector<AttrSchema> attrs = {
      {"window", AttrKind::kInts}, {"strides", AttrKind::kInts}, {"padding", AttrKind::kString}};
  return {
      {"max_pool", 1, 2, 1, attrs, InferMaxPool, MaxPoolGradient, FlopsPerInput},
      {"max_pool_grad", 2, 2, 1, attrs, InferPoolGrad, MaxPoolGradGradient},
      {"avg_pool", 1, 1, 1, attrs, InferAvgPool, AvgPoolGradient, FlopsPerInput},
      {"avg_pool_grad", 2, 2, 1, attrs, InferPoolGrad, AvgPoolGradGradient},
  };
}

}  // namespace cohort::ops
