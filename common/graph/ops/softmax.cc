// Softmax and sparsemax over the last axis.
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

absl::StatusOr<Types> InferSoftmax(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckLastAxisStatic(context, 0));
  return InferSameFloating(context);
}

Expr SumLast(Expr x) { return ReduceSum(x, {-1}, true); }

void SoftmaxGradient(GradientContext* c) {
  const Expr y = c->output();
  c->Set(0, y * (c->grad() - SumLast(c->grad() * y)));
}

void LogSoftmaxGradient(GradientContext* c) {
  c->Set(0, c->grad() - Exp(c->output()) * SumLast(c->grad()));
}

// y = max(x - t, 0), and t is the mean of the values that remain, less 1 / their number.
void SparsemaxGradient(GradientContext* c) {
  const Expr zero = c->builder()->Scalar(0, c->grad().dtype());
  const Expr remains = Cast(Greater(c->output(), zero), c->grad().dtype());
  const Expr mean = SumLast(c->grad() * remains) / SumLast(remains);
  c->Set(0, (c->grad() - mean) * remains);
}

}  // namespace

std::vector<OpSchema> SoftmaxOps() {
  return {
      {"softmax", 1, 1, 1, {}, InferSoftmax, SoftmaxGradient},
      {"log_softmax", 1, 1, 1, {}, InferSoftmax, LogSoftmaxGradient},
      {"sparsemax", 1, 1, 1, {}, InferSoftmax, SparsemaxGradient},
  };
}

}  // namespace cohort::ops
