// Dot (keras/src/layers/merging/dot.py).
#include <algorithm>

#include "common/graph/expr.h"
#include "common/model/layers/axes.h"
#include "common/model/layers/layer.h"
#include "common/model/layers/normalize.h"

namespace cohort {
namespace {

// One side of the product: [batch, others, axis], and the dims of the other axes.
struct DotSide {
  Expr matrix;
  std::vector<int64_t> others;
};

// Moves `axis` to the end and makes one of all axes between it and the batch.
DotSide SideOf(Expr x, int64_t axis) {
  const std::vector<int64_t> dims = ReshapeDims(x.type().dims);
  DotSide side;
  int64_t count = 1;
  for (size_t i = 1; i < dims.size(); ++i) {
    if (static_cast<int64_t>(i) == axis) continue;
    side.others.push_back(dims[i]);
    count *= dims[i];
  }
  if (axis != static_cast<int64_t>(dims.size()) - 1) {
    x = Transpose(x, MoveLast(dims.size(), std::span(&axis, 1)).there);
  }
  side.matrix = Reshape(x, {dims[0], count, dims[static_cast<size_t>(axis)]});
  return side;
}

absl::StatusOr<LayerOutput> BuildDot(LayerContext* context) {
  Expr a = context->FloatInput(0), b = context->FloatInput(1);
  std::vector<int64_t> axes = context->config.Ints("axes");
  if (axes.size() == 1) axes.push_back(axes[0]);
  if (axes.size() != 2) return InvalidArgument("axes must be one axis, or one of each input");
  const ValueType types[] = {a.type(), b.type()};
  for (size_t i = 0; i < 2; ++i) {
    COHORT_ASSIGN_OR_RETURN(const auto found, LayerAxes(std::span(&axes[i], 1), types[i]));
    axes[i] = found[0];
  }
  const Dim d = types[0].dims[static_cast<size_t>(axes[0])];
  if (d != types[1].dims[static_cast<size_t>(axes[1])] || types[0].dims[0] != types[1].dims[0]) {
    return InvalidArgument("axis {} of {} and axis {} of {} differ in size", axes[0],
                           TypeToString(types[0]), axes[1], TypeToString(types[1]));
  }
  if (context->config.Bool("normalize")) {
    a = UnitLength(a, {axes[0]}, kKerasEpsilon);
    b = UnitLength(b, {axes[1]}, kKerasEpsilon);
  }
  if (a.rank() == 2 && b.rank() == 2) return ReduceSum(a * b, {1}, true);
  const DotSide left = SideOf(a, axes[0]), right = SideOf(b, axes[1]);
  std::vector<int64_t> dims = {ReshapeDims(types[0].dims)[0]};
  dims.insert(dims.end(), left.others.begin(), left.others.end());
  dims.insert(dims.end(), right.others.begin(), right.others.end());
  return Reshape(BatchMatMul(left.matrix, right.matrix, false, true), std::move(dims));
}

}  // namespace

LayerClass DotLayer() {
  return {
      .schema = LayerSchema(
          "Dot", "The products of the records of two inputs, summed over one axis of each.",
          {Ints("axes", "The axis, or one of each input; negative ones count from the end."),
           Bool("normalize", "True: of unit length along the axis, so a cosine.").Default(false)}),
      .min_inputs = 2,
      .max_inputs = 2,
      .build = BuildDot};
}

}  // namespace cohort
