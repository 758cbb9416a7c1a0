// Softmax over the last axis.
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

absl::Status InferSoftmax(const InferContext& context, std::vector<ValueType>* outputs) {
  COHORT_RETURN_IF_ERROR(CheckLastAxisStatic(context, 0));
  return InferSameFloating(context, outputs);
}

Expr SumLast(Expr x) { return ReduceSum(x, {-1}, true); }

absl::Status SoftmaxGradient(GradientContext* c) {
  const Expr y = c->output();
  c->Set(0, y * (c->grad() - SumLast(c->grad() * y)));
  return absl::OkStatus();
}

absl::Status LogSoftmaxGradient(GradientContext* c) {
  c->Set(0, c->grad() - Exp(c->output()) * SumLast(c->grad()));
  return absl::OkStatus();
}

}  // namespace

std::vector<OpSchema> SoftmaxOps() {
  return {
      {"softmax", 1, 1, 1, {}, InferSoftmax, SoftmaxGradient},
      {"log_softmax", 1, 1, 1, {}, InferSoftmax, LogSoftmaxGradient},
  };
}

}  // namespace cohort::ops
