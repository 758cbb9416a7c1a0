// The product of two matrices, and of two batches of matrices.
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/mixed_precision.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

// `first`: the axis of the rows.
absl::StatusOr<Types> InferProduct(const InferContext& context, size_t first) {
  COHORT_RETURN_IF_ERROR(CheckFloating(context, 0));
  COHORT_RETURN_IF_ERROR(CheckSameDType(context, 0, 1));
  COHORT_RETURN_IF_ERROR(CheckPrecision(context));
  COHORT_RETURN_IF_ERROR(CheckRank(context, 0, first + 2));
  COHORT_RETURN_IF_ERROR(CheckRank(context, 1, first + 2));
  const size_t ta = BoolAttr(context.node, "transpose_a") ? 1 : 0;
  const size_t tb = BoolAttr(context.node, "transpose_b") ? 1 : 0;
  const auto& a = context.input(0).dims;
  const auto& b = context.input(1).dims;
  if (a[first + 1 - ta] != b[first + tb]) {
    return InvalidArgument("inner axes differ: {}{} times {}{}", TypeToString(context.input(0)),
                           ta ? " transposed" : "", TypeToString(context.input(1)),
                           tb ? " transposed" : "");
  }
  ValueType y{context.input(0).dtype, {a[first + ta], b[first + 1 - tb]}};
  if (first == 1) {
    if (a[0] != b[0]) {
      return InvalidArgument("{} and {} are not as many matrices", TypeToString(context.input(0)),
                             TypeToString(context.input(1)));
    }
    y.dims.insert(y.dims.begin(), a[0]);
  }
  return Types{std::move(y)};
}

absl::StatusOr<Types> InferMatmul(const InferContext& context) { return InferProduct(context, 0); }

absl::StatusOr<Types> InferBatchMatmul(const InferContext& context) {
  return InferProduct(context, 1);
}

// The product of the node's op, with its precision.
Expr Product(GradientContext* c, Expr a, Expr b, bool transpose_a, bool transpose_b) {
  Attrs attrs = c->node().attrs;
  attrs["transpose_a"] = transpose_a;
  attrs["transpose_b"] = transpose_b;
  return c->builder()->Op(c->node().op, {a, b}, std::move(attrs));
}

// C = A B: dA = G B', dB = A' G; the other cases by transposing both sides.
void ProductGradient(GradientContext* c) {
  const bool ta = BoolAttr(c->node(), "transpose_a");
  const bool tb = BoolAttr(c->node(), "transpose_b");
  const Expr g = c->grad(), a = c->input(0), b = c->input(1);
  if (c->needs(0)) c->Set(0, ta ? Product(c, b, g, tb, true) : Product(c, g, b, false, !tb));
  if (c->needs(1)) c->Set(1, tb ? Product(c, g, a, true, ta) : Product(c, a, g, !ta, false));
}

// Axis of the products' sums: the last one or, transposed, the one before.
double MatmulFlops(const Program& program, const Node& node) {
  const auto& dims = program.type(node.inputs[0]).dims;
  const size_t inner = dims.size() - (BoolAttr(node, "transpose_a") ? 2 : 1);
  return 2 * static_cast<double>(dims[inner].size) *
         static_cast<double>(CapacityElements(program.type(node.outputs[0])));
}

}  // namespace

std::vector<OpSchema> MatmulOps() {
  const std::vector<AttrSchema> attrs = {{"transpose_a", AttrKind::kBool, false},
                                         {"transpose_b", AttrKind::kBool, false},
                                         {"precision", AttrKind::kString, false}};
  return {
      {"matmul", 2, 2, 1, attrs, InferMatmul, ProductGradient, MatmulFlops},
      {"batch_matmul", 2, 2, 1, attrs, InferBatchMatmul, ProductGradient, MatmulFlops},
  };
}

}  // namespace cohort::ops
