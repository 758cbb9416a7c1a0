// Elementwise ops of one value.
#include <cmath>

#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

absl::Status InferClip(const InferContext& context, std::vector<ValueType>* outputs) {
  const double min = FloatAttr(context.node, "min");
  const double max = FloatAttr(context.node, "max");
  if (!(min <= max)) return InvalidArgument("min {} is not <= max {}", min, max);
  return InferSameFloating(context, outputs);
}

absl::Status InferCast(const InferContext& context, std::vector<ValueType>* outputs) {
  const std::string_view name = StringAttr(context.node, "dtype");
  const auto dtype = DTypeFromName(name);
  if (!dtype.has_value()) return InvalidArgument("there is no dtype '{}'", name);
  outputs->push_back({*dtype, context.input(0).dims});
  return absl::OkStatus();
}

Expr Zero(GradientContext* c) { return c->builder()->Scalar(0, c->grad().dtype()); }

absl::Status NegGradient(GradientContext* c) {
  c->Set(0, -c->grad());
  return absl::OkStatus();
}

absl::Status ExpGradient(GradientContext* c) {
  c->Set(0, c->grad() * c->output());
  return absl::OkStatus();
}

absl::Status LogGradient(GradientContext* c) {
  c->Set(0, c->grad() / c->input(0));
  return absl::OkStatus();
}

absl::Status SqrtGradient(GradientContext* c) {
  c->Set(0, c->grad() * 0.5 / c->output());
  return absl::OkStatus();
}

absl::Status SquareGradient(GradientContext* c) {
  c->Set(0, c->grad() * (c->input(0) * 2.0));
  return absl::OkStatus();
}

// 0 at 0.
absl::Status AbsGradient(GradientContext* c) {
  const Expr negative = Select(Greater(Zero(c), c->input(0)), -c->grad(), Zero(c));
  c->Set(0, Select(Greater(c->input(0), Zero(c)), c->grad(), negative));
  return absl::OkStatus();
}

// 0 at 0.
absl::Status ReluGradient(GradientContext* c) {
  c->Set(0, Select(Greater(c->output(), Zero(c)), c->grad(), Zero(c)));
  return absl::OkStatus();
}

absl::Status SigmoidGradient(GradientContext* c) {
  c->Set(0, c->grad() * c->output() * (1.0 - c->output()));
  return absl::OkStatus();
}

absl::Status TanhGradient(GradientContext* c) {
  c->Set(0, c->grad() * (1.0 - Square(c->output())));
  return absl::OkStatus();
}

// 1 on the bounds themselves, as in TensorFlow's clip_by_value.
absl::Status ClipGradient(GradientContext* c) {
  const DType dtype = c->grad().dtype();
  const Expr min = c->builder()->Scalar(FloatAttr(c->node(), "min"), dtype);
  const Expr max = c->builder()->Scalar(FloatAttr(c->node(), "max"), dtype);
  const Expr below = Select(Greater(min, c->input(0)), Zero(c), c->grad());
  c->Set(0, Select(Greater(c->input(0), max), Zero(c), below));
  return absl::OkStatus();
}

// Flows between floating dtypes only; Gradients stops at others.
absl::Status CastGradient(GradientContext* c) {
  c->Set(0, Cast(c->grad(), c->input(0).dtype()));
  return absl::OkStatus();
}

}  // namespace

std::vector<OpSchema> UnaryOps() {
  return {
      {"neg", 1, 1, 1, {}, InferSameFloating, NegGradient},
      {"exp", 1, 1, 1, {}, InferSameFloating, ExpGradient},
      {"log", 1, 1, 1, {}, InferSameFloating, LogGradient},
      {"sqrt", 1, 1, 1, {}, InferSameFloating, SqrtGradient},
      {"square", 1, 1, 1, {}, InferSameFloating, SquareGradient},
      {"abs", 1, 1, 1, {}, InferSameFloating, AbsGradient},
      {"floor", 1, 1, 1, {}, InferSameFloating},
      {"relu", 1, 1, 1, {}, InferSameFloating, ReluGradient},
      {"sigmoid", 1, 1, 1, {}, InferSameFloating, SigmoidGradient},
      {"tanh", 1, 1, 1, {}, InferSameFloating, TanhGradient},
      {"clip",
       1,
       1,
       1,
       {{"min", AttrKind::kFloat}, {"max", AttrKind::kFloat}},
       InferClip,
       ClipGradient},
      {"cast", 1, 1, 1, {{"dtype", AttrKind::kString}}, InferCast, CastGradient},
  };
}

}  // namespace cohort::ops
