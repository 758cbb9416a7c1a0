// Ops that sum up axes or spread over them.
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

absl::StatusOr<Types> InferReduce(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckFloating(context, 0));
  const ValueType& x = context.input(0);
  const auto axes = IntsAttr(context.node, "axes");
  std::vector<bool> reduced(x.dims.size(), false);
  int64_t last = -1;
  for (int64_t axis : axes) {
    COHORT_RETURN_IF_ERROR(CheckAxis(context, 0, axis));
    if (axis <= last) return InvalidArgument("axes {} must ascend", DimsToString(axes));
    last = axis;
    reduced[static_cast<size_t>(axis)] = true;
  }
  const bool keepdims = BoolAttr(context.node, "keepdims");
  ValueType y{x.dtype, {}};
  for (size_t i = 0; i < x.dims.size(); ++i) {
    if (!reduced[i]) y.dims.push_back(x.dims[i]);
    if (reduced[i] && keepdims) y.dims.push_back({1, 0});
  }
  return Types{std::move(y)};
}

// A value of the reduced shape, with the reduced axes kept as 1, so that it broadcasts over the
// input.
Expr KeepAxes(GradientContext* c, Expr reduced) {
  if (BoolAttr(c->node(), "keepdims")) return reduced;
  const auto axes = IntsAttr(c->node(), "axes");
  const ValueType x = c->input(0).type();
  if (axes.size() == x.dims.size()) return reduced;  // a scalar broadcasts by itself
  std::vector<int64_t> dims;
  size_t next = 0;
  bool leading = true;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    const bool is_reduced = next < axes.size() && axes[next] == static_cast<int64_t>(i);
    if (is_reduced) ++next;
    // Leading axes come by themselves, and a bounded axis stays at 0.
    if (is_reduced && leading) continue;
    leading = false;
    dims.push_back(is_reduced ? 1 : x.dims[i].bounded() ? -1 : x.dims[i].size);
  }
  return dims.size() == reduced.rank() ? reduced : Reshape(reduced, std::move(dims));
}

void ReduceSumGradient(GradientContext* c) {
  c->Set(0, BroadcastLike(KeepAxes(c, c->grad()), c->input(0)));
}

// Shared evenly among equal maxima, as in TensorFlow.
void ReduceMaxGradient(GradientContext* c) {
  const Expr x = c->input(0);
  const auto axes = IntsAttr(c->node(), "axes");
  const Expr is_max = Cast(Equal(x, KeepAxes(c, c->output())), x.dtype());
  const Expr ties = ReduceSum(is_max, {axes.begin(), axes.end()}, true);
  c->Set(0, is_max / ties * KeepAxes(c, c->grad()));
}

// Each element gets the product of the others, also where one of them is 0.
void ReduceProdGradient(GradientContext* c) {
  const Expr x = c->input(0);
  const auto given = IntsAttr(c->node(), "axes");
  const std::vector<int64_t> axes(given.begin(), given.end());
  const Expr zero = c->builder()->Scalar(0, x.dtype()), one = c->builder()->Scalar(1, x.dtype());
  const Expr is_zero = Equal(x, zero);
  const Expr zeros = ReduceSum(Cast(is_zero, x.dtype()), axes, true);
  const Expr nonzero = Select(is_zero, one, x);
  const Expr product = ReduceProd(nonzero, axes, true);
  const Expr of_others = Select(is_zero, Select(Equal(zeros, one), product, zero),
                                Select(Equal(zeros, zero), product / nonzero, zero));
  c->Set(0, of_others * KeepAxes(c, c->grad()));
}

absl::StatusOr<Types> InferSumSquares(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckFloating(context, 0));
  return Types{{DType::kFloat64, {}}};
}

void SumSquaresGradient(GradientContext* c) {
  const Expr x = c->input(0);
  c->Set(0, x * Cast(2.0 * c->grad(), x.dtype()));
}

absl::StatusOr<Types> InferBroadcastLike(const InferContext& context) {
  const ValueType& like = context.input(1);
  COHORT_ASSIGN_OR_RETURN(const auto dims, BroadcastDims(context.input(0), like));
  if (dims != like.dims) {
    return InvalidArgument("{} does not broadcast to {}", TypeToString(context.input(0)),
                           TypeToString(like));
  }
  return Types{{context.input(0).dtype, like.dims}};
}

void BroadcastLikeGradient(GradientContext* c) {
  if (c->needs(0)) c->Set(0, SumTo(c->grad(), c->input(0).type()));
}

absl::StatusOr<Types> InferDimSize(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckAxis(context, 0, IntAttr(context.node, "axis")));
  const std::string_view name = StringAttr(context.node, "dtype");
  const auto dtype = DTypeFromName(name);
  if (!dtype.has_value() || !IsFloating(*dtype)) {
    return InvalidArgument("dtype must be float32 or float64, not '{}'", name);
  }
  return Types{{*dtype, {}}};
}

absl::StatusOr<Types> InferArgmax(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckFloating(context, 0));
  COHORT_RETURN_IF_ERROR(CheckLastAxisStatic(context, 0));
  ValueType y{DType::kInt64, context.input(0).dims};
  y.dims.pop_back();
  return Types{std::move(y)};
}

}  // namespace

std::vector<OpSchema> ReduceOps() {
  const std::vector<AttrSchema> reduce_attrs = {{"axes", AttrKind::kInts},
                                                {"keepdims", AttrKind::kBool, false}};
  return {
      {"reduce_sum", 1, 1, 1, reduce_attrs, InferReduce, ReduceSumGradient, FlopsPerInput},
      {"reduce_max", 1, 1, 1, reduce_attrs, InferReduce, ReduceMaxGradient, FlopsPerInput},
      {"reduce_prod", 1, 1, 1, reduce_attrs, InferReduce, ReduceProdGradient, FlopsPerInput},
      {"broadcast_like", 2, 2, 1, {}, InferBroadcastLike, BroadcastLikeGradient, NoFlops},
      {"dim_size",
       1,
       1,
       1,
       {{"axis", AttrKind::kInt}, {"dtype", AttrKind::kString}},
       InferDimSize,
       nullptr,
       NoFlops},
      {"sum_squares", 1, 1, 1, {}, InferSumSquares, SumSquaresGradient, FlopsPerInput},
      {"argmax", 1, 1, 1, {}, InferArgmax, nullptr, FlopsPerInput},
  };
}

}  // namespace cohort::ops
