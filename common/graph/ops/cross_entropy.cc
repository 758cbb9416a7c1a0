// Labels against predictions: cross entropies, computed from logits so that nothing overflows, and
// in_top_k.
#include <numeric>

#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

absl::StatusOr<Types> InferSigmoid(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckFloating(context, 0));
  if (context.input(0) != context.input(1)) {
    return InvalidArgument("labels and logits must have one type, not {} and {}",
                           TypeToString(context.input(0)), TypeToString(context.input(1)));
  }
  return Types{context.input(0)};
}

void SigmoidCrossEntropyGradient(GradientContext* c) {
  if (c->needs(0)) c->Set(0, -(c->grad() * c->input(1)));
  if (c->needs(1)) c->Set(1, c->grad() * (Sigmoid(c->input(1)) - c->input(0)));
}

// One label, input 0, for each row of scores of the classes, input 1.
absl::Status CheckLabelPerRow(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckDType(context, 0, DType::kInt64));
  COHORT_RETURN_IF_ERROR(CheckFloating(context, 1));
  COHORT_RETURN_IF_ERROR(CheckRank(context, 0, 1));
  COHORT_RETURN_IF_ERROR(CheckRank(context, 1, 2));
  COHORT_RETURN_IF_ERROR(CheckLastAxisStatic(context, 1));
  if (context.input(0).dims[0] != context.input(1).dims[0]) {
    return InvalidArgument("inputs 0 and 1 have different numbers of rows: {} and {}",
                           TypeToString(context.input(0)), TypeToString(context.input(1)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Types> InferSparseSoftmax(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckLabelPerRow(context));
  return Types{{context.input(1).dtype, context.input(0).dims}};
}

absl::StatusOr<Types> InferInTopK(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckLabelPerRow(context));
  const int64_t k = IntAttr(context.node, "k");
  if (k < 1) return InvalidArgument("k must be 1 or more, not {}", k);
  return Types{{DType::kBool, context.input(0).dims}};
}

// (softmax(logits) - one_hot(labels)) * grad, the one-hot made by comparing with 0..n-1.
void SparseSoftmaxGradient(GradientContext* c) {
  if (!c->needs(1)) return;
  const Expr labels = c->input(0);
  const Expr logits = c->input(1);
  const Dim rows = labels.type().dims[0];
  const std::vector<int64_t> column = {rows.bounded() ? -1 : rows.size, 1};
  std::vector<int64_t> classes(static_cast<size_t>(logits.type().dims[1].size));
  std::iota(classes.begin(), classes.end(), 0);
  const auto n = static_cast<int64_t>(classes.size());
  const Expr iota = c->builder()->Constant(
      Tensor::FromValues<int64_t>({1, n}, std::span<const int64_t>(classes)));
  const Expr one_hot = Cast(Equal(Reshape(labels, column), iota), logits.dtype());
  c->Set(1, (Softmax(logits) - one_hot) * Reshape(c->grad(), column));
}

}  // namespace

std::vector<OpSchema> CrossEntropyOps() {
  return {
      {"sigmoid_cross_entropy", 2, 2, 1, {}, InferSigmoid, SigmoidCrossEntropyGradient},
      {"sparse_softmax_cross_entropy", 2, 2, 1, {}, InferSparseSoftmax, SparseSoftmaxGradient},
      {"in_top_k", 2, 2, 1, {{"k", AttrKind::kInt}}, InferInTopK},
  };
}

}  // namespace cohort::ops
