// The product of two matrices.
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

absl::Status InferMatmul(const InferContext& context, std::vector<ValueType>* outputs) {
  COHORT_RETURN_IF_ERROR(CheckFloating(context, 0));
  COHORT_RETURN_IF_ERROR(CheckSameDType(context, 0, 1));
  COHORT_RETURN_IF_ERROR(CheckRank(context, 0, 2));
  COHORT_RETURN_IF_ERROR(CheckRank(context, 1, 2));
  const size_t ta = BoolAttr(context.node, "transpose_a") ? 1 : 0;
  const size_t tb = BoolAttr(context.node, "transpose_b") ? 1 : 0;
  const auto& a = context.input(0).dims;
  const auto& b = context.input(1).dims;
  if (a[1 - ta] != b[tb]) {
    return InvalidArgument("inner axes differ: {}{} times {}{}", TypeToString(context.input(0)),
                           ta ? " transposed" : "", TypeToString(context.input(1)),
                           tb ? " transposed" : "");
  }
  outputs->push_back({context.input(0).dtype, {a[ta], b[1 - tb]}});
  return absl::OkStatus();
}

// C = A B: dA = G B', dB = A' G; the other cases by transposing both sides.
absl::Status MatmulGradient(GradientContext* c) {
  const bool ta = BoolAttr(c->node(), "transpose_a");
  const bool tb = BoolAttr(c->node(), "transpose_b");
  const Expr g = c->grad();
  if (c->needs(0)) {
    c->Set(0, ta ? MatMul(c->input(1), g, tb, true) : MatMul(g, c->input(1), false, !tb));
  }
  if (c->needs(1)) {
    c->Set(1, tb ? MatMul(g, c->input(0), true, ta) : MatMul(c->input(0), g, !ta, false));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<OpSchema> MatmulOps() {
  return {{"matmul",
           2,
           2,
           1,
           {{"transpose_a", AttrKind::kBool, false}, {"transpose_b", AttrKind::kBool, false}},
           InferMatmul,
           MatmulGradient}};
}

}  // namespace cohort::ops
