// Elementwise ops of two values with NumPy's broadcasting, and select. A gradient of a broadcast
// operand is summed back to the operand's shape.
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

absl::Status InferBroadcast(const InferContext& context, DType dtype,
                            std::vector<ValueType>* outputs) {
  COHORT_RETURN_IF_ERROR(CheckSameDType(context, 0, 1));
  COHORT_ASSIGN_OR_RETURN(auto dims, BroadcastDims(context.input(0), context.input(1)));
  outputs->push_back({dtype, std::move(dims)});
  return absl::OkStatus();
}

absl::Status InferArithmetic(const InferContext& context, std::vector<ValueType>* outputs) {
  COHORT_RETURN_IF_ERROR(CheckFloating(context, 0));
  return InferBroadcast(context, context.input(0).dtype, outputs);
}

absl::Status InferCompare(const InferContext& context, std::vector<ValueType>* outputs) {
  if (context.input(0).dtype == DType::kBool) {
    return InvalidArgument("input 0 must be a number, not {}", TypeToString(context.input(0)));
  }
  return InferBroadcast(context, DType::kBool, outputs);
}

absl::Status InferLogical(const InferContext& context, std::vector<ValueType>* outputs) {
  COHORT_RETURN_IF_ERROR(CheckDType(context, 0, DType::kBool));
  return InferBroadcast(context, DType::kBool, outputs);
}

absl::Status InferSelect(const InferContext& context, std::vector<ValueType>* outputs) {
  COHORT_RETURN_IF_ERROR(CheckDType(context, 0, DType::kBool));
  COHORT_RETURN_IF_ERROR(CheckFloating(context, 1));
  COHORT_RETURN_IF_ERROR(CheckSameDType(context, 1, 2));
  ValueType y{context.input(1).dtype, {}};
  COHORT_ASSIGN_OR_RETURN(y.dims, BroadcastDims(context.input(1), context.input(2)));
  COHORT_ASSIGN_OR_RETURN(y.dims, BroadcastDims(context.input(0), y));
  outputs->push_back(std::move(y));
  return absl::OkStatus();
}

void SetSummed(GradientContext* c, size_t i, Expr grad) {
  c->Set(i, SumTo(grad, c->input(i).type()));
}

absl::Status AddGradient(GradientContext* c) {
  if (c->needs(0)) SetSummed(c, 0, c->grad());
  if (c->needs(1)) SetSummed(c, 1, c->grad());
  return absl::OkStatus();
}

absl::Status SubGradient(GradientContext* c) {
  if (c->needs(0)) SetSummed(c, 0, c->grad());
  if (c->needs(1)) SetSummed(c, 1, -c->grad());
  return absl::OkStatus();
}

absl::Status MulGradient(GradientContext* c) {
  if (c->needs(0)) SetSummed(c, 0, c->grad() * c->input(1));
  if (c->needs(1)) SetSummed(c, 1, c->grad() * c->input(0));
  return absl::OkStatus();
}

absl::Status DivGradient(GradientContext* c) {
  if (c->needs(0)) SetSummed(c, 0, c->grad() / c->input(1));
  if (c->needs(1)) SetSummed(c, 1, -(c->grad() * c->output() / c->input(1)));
  return absl::OkStatus();
}

// The output is input 1 if `second`, else input 0. If both are equal, the gradient goes to the
// first, as in TensorFlow.
absl::Status ExtremumGradient(GradientContext* c, Expr second) {
  const Expr zero = c->builder()->Scalar(0, c->grad().dtype());
  if (c->needs(0)) SetSummed(c, 0, Select(second, zero, c->grad()));
  if (c->needs(1)) SetSummed(c, 1, Select(second, c->grad(), zero));
  return absl::OkStatus();
}

absl::Status MaximumGradient(GradientContext* c) {
  return ExtremumGradient(c, Greater(c->input(1), c->input(0)));
}

absl::Status MinimumGradient(GradientContext* c) {
  return ExtremumGradient(c, Greater(c->input(0), c->input(1)));
}

absl::Status SelectGradient(GradientContext* c) {
  const Expr zero = c->builder()->Scalar(0, c->grad().dtype());
  if (c->needs(1)) SetSummed(c, 1, Select(c->input(0), c->grad(), zero));
  if (c->needs(2)) SetSummed(c, 2, Select(c->input(0), zero, c->grad()));
  return absl::OkStatus();
}

}  // namespace

std::vector<OpSchema> BinaryOps() {
  return {
      {"add", 2, 2, 1, {}, InferArithmetic, AddGradient},
      {"sub", 2, 2, 1, {}, InferArithmetic, SubGradient},
      {"mul", 2, 2, 1, {}, InferArithmetic, MulGradient},
      {"div", 2, 2, 1, {}, InferArithmetic, DivGradient},
      {"maximum", 2, 2, 1, {}, InferArithmetic, MaximumGradient},
      {"minimum", 2, 2, 1, {}, InferArithmetic, MinimumGradient},
      {"greater", 2, 2, 1, {}, InferCompare},
      {"equal", 2, 2, 1, {}, InferCompare},
      {"logical_and", 2, 2, 1, {}, InferLogical},
      {"select", 3, 3, 1, {}, InferSelect, SelectGradient},
  };
}

}  // namespace cohort::ops
