// Elementwise ops of two values with NumPy's broadcasting, and select. A gradient of a broadcast
// operand is summed back to the operand's shape.
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

absl::StatusOr<Types> InferBroadcast(const InferContext& context, DType dtype) {
  COHORT_RETURN_IF_ERROR(CheckSameDType(context, 0, 1));
  COHORT_ASSIGN_OR_RETURN(auto dims, BroadcastDims(context.input(0), context.input(1)));
  return Types{{dtype, std::move(dims)}};
}

absl::StatusOr<Types> InferArithmetic(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckFloating(context, 0));
  return InferBroadcast(context, context.input(0).dtype);
}

absl::StatusOr<Types> InferCompare(const InferContext& context) {
  if (context.input(0).dtype == DType::kBool) {
    return InvalidArgument("input 0 must be a number, not {}", TypeToString(context.input(0)));
  }
  return InferBroadcast(context, DType::kBool);
}

absl::StatusOr<Types> InferLogical(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckDType(context, 0, DType::kBool));
  return InferBroadcast(context, DType::kBool);
}

absl::StatusOr<Types> InferSelect(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckDType(context, 0, DType::kBool));
  COHORT_RETURN_IF_ERROR(CheckFloating(context, 1));
  COHORT_RETURN_IF_ERROR(CheckSameDType(context, 1, 2));
  ValueType y{context.input(1).dtype, {}};
  COHORT_ASSIGN_OR_RETURN(y.dims, BroadcastDims(context.input(1), context.input(2)));
  COHORT_ASSIGN_OR_RETURN(y.dims, BroadcastDims(context.input(0), y));
  return Types{std::move(y)};
}

void SetSummed(GradientContext* c, size_t i, Expr grad) {
  c->Set(i, SumTo(grad, c->input(i).type()));
}

void AddGradient(GradientContext* c) {
  if (c->needs(0)) SetSummed(c, 0, c->grad());
  if (c->needs(1)) SetSummed(c, 1, c->grad());
}

void SubGradient(GradientContext* c) {
  if (c->needs(0)) SetSummed(c, 0, c->grad());
  if (c->needs(1)) SetSummed(c, 1, -c->grad());
}

void MulGradient(GradientContext* c) {
  if (c->needs(0)) SetSummed(c, 0, c->grad() * c->input(1));
  if (c->needs(1)) SetSummed(c, 1, c->grad() * c->input(0));
}

void DivGradient(GradientContext* c) {
  if (c->needs(0)) SetSummed(c, 0, c->grad() / c->input(1));
  if (c->needs(1)) SetSummed(c, 1, -(c->grad() * c->output() / c->input(1)));
}

// The output is input 1 if `second`, else input 0. If both are equal, the gradient goes to the
// first, as in TensorFlow.
void ExtremumGradient(GradientContext* c, Expr second) {
  const Expr zero = c->builder()->Scalar(0, c->grad().dtype());
  if (c->needs(0)) SetSummed(c, 0, Select(second, zero, c->grad()));
  if (c->needs(1)) SetSummed(c, 1, Select(second, c->grad(), zero));
}

void MaximumGradient(GradientContext* c) {
  return ExtremumGradient(c, Greater(c->input(1), c->input(0)));
}

void MinimumGradient(GradientContext* c) {
  return ExtremumGradient(c, Greater(c->input(0), c->input(1)));
}

// As TensorFlow: a logarithm of what is not positive is 0.
void PowGradient(GradientContext* c) {
  const Expr a = c->input(0), b = c->input(1);
  const Expr zero = c->builder()->Scalar(0, c->grad().dtype());
  if (c->needs(0)) SetSummed(c, 0, c->grad() * (b * Pow(a, b - 1.0)));
  if (!c->needs(1)) return;
  const Expr positive = Greater(a, zero);
  const Expr log = Select(positive, Log(Select(positive, a, zero + 1.0)), zero);
  SetSummed(c, 1, c->grad() * (c->output() * log));
}

void SelectGradient(GradientContext* c) {
  const Expr zero = c->builder()->Scalar(0, c->grad().dtype());
  if (c->needs(1)) SetSummed(c, 1, Select(c->input(0), c->grad(), zero));
  if (c->needs(2)) SetSummed(c, 2, Select(c->input(0), zero, c->grad()));
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
      {"pow", 2, 2, 1, {}, InferArithmetic, PowGradient},
      {"greater", 2, 2, 1, {}, InferCompare},
      {"greater_equal", 2, 2, 1, {}, InferCompare},
      {"equal", 2, 2, 1, {}, InferCompare},
      {"logical_and", 2, 2, 1, {}, InferLogical},
      {"logical_or", 2, 2, 1, {}, InferLogical},
      {"select", 3, 3, 1, {}, InferSelect, SelectGradient},
  };
}

}  // namespace cohort::ops
