// Elementwise ops of one value, and two that pass a gradient through them.
#include <cmath>

#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

absl::StatusOr<Types> InferClip(const InferContext& context) {
  const double min = FloatAttr(context.node, "min");
  const double max = FloatAttr(context.node, "max");
  if (!(min <= max)) return InvalidArgument("min {} is not <= max {}", min, max);
  return InferSameFloating(context);
}

absl::StatusOr<Types> InferCast(const InferContext& context) {
  const std::string_view name = StringAttr(context.node, "dtype");
  const auto dtype = DTypeFromName(name);
  if (!dtype.has_value()) return InvalidArgument("there is no dtype '{}'", name);
  return Types{{*dtype, context.input(0).dims}};
}

absl::StatusOr<Types> InferNot(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckDType(context, 0, DType::kBool));
  return Types{context.input(0)};
}

constexpr double kTwoBySqrtPi = 1.1283791670955126;  // 2 / sqrt(pi)

Expr Zero(GradientContext* c) { return c->builder()->Scalar(0, c->grad().dtype()); }

void NegGradient(GradientContext* c) { c->Set(0, -c->grad()); }

void ExpGradient(GradientContext* c) { c->Set(0, c->grad() * c->output()); }

void LogGradient(GradientContext* c) { c->Set(0, c->grad() / c->input(0)); }

void Log1pGradient(GradientContext* c) { c->Set(0, c->grad() / (1.0 + c->input(0))); }

void Expm1Gradient(GradientContext* c) { c->Set(0, c->grad() * (c->output() + 1.0)); }

void RsqrtGradient(GradientContext* c) {
  c->Set(0, c->grad() * (c->output() * Square(c->output()) * -0.5));
}

void SinGradient(GradientContext* c) { c->Set(0, c->grad() * Cos(c->input(0))); }

void CosGradient(GradientContext* c) { c->Set(0, -(c->grad() * Sin(c->input(0)))); }

void AtanGradient(GradientContext* c) { c->Set(0, c->grad() / (1.0 + Square(c->input(0)))); }

void SqrtGradient(GradientContext* c) { c->Set(0, c->grad() * 0.5 / c->output()); }

void SquareGradient(GradientContext* c) { c->Set(0, c->grad() * (c->input(0) * 2.0)); }

// 0 at 0.
void AbsGradient(GradientContext* c) {
  const Expr negative = Select(Greater(Zero(c), c->input(0)), -c->grad(), Zero(c));
  c->Set(0, Select(Greater(c->input(0), Zero(c)), c->grad(), negative));
}

// 0 at 0.
void ReluGradient(GradientContext* c) { c->Set(0, ReluGrad(c->grad(), c->output())); }

void ReluGradGradient(GradientContext* c) {
  if (c->needs(0)) c->Set(0, ReluGrad(c->grad(), c->input(1)));
}

void SigmoidGradient(GradientContext* c) {
  c->Set(0, c->grad() * c->output() * (1.0 - c->output()));
}

void TanhGradient(GradientContext* c) { c->Set(0, c->grad() * (1.0 - Square(c->output()))); }

void ErfGradient(GradientContext* c) {
  c->Set(0, c->grad() * (Exp(-Square(c->input(0))) * kTwoBySqrtPi));
}

void SoftplusGradient(GradientContext* c) { c->Set(0, c->grad() * Sigmoid(c->input(0))); }

// 1 on the bounds themselves, as in TensorFlow's clip_by_value.
void ClipGradient(GradientContext* c) {
  c->Set(0, ClipGrad(c->grad(), c->input(0), FloatAttr(c->node(), "min"),
                     FloatAttr(c->node(), "max")));
}

void ClipGradGradient(GradientContext* c) {
  if (!c->needs(0)) return;
  c->Set(0, ClipGrad(c->grad(), c->input(1), FloatAttr(c->node(), "min"),
                     FloatAttr(c->node(), "max")));
}

// The gradient is like the value that it flows through.
absl::StatusOr<Types> InferGate(const InferContext& context) {
  if (context.input(0) != context.input(1)) {
    return InvalidArgument("the gradient is {}, and the value {}", TypeToString(context.input(0)),
                           TypeToString(context.input(1)));
  }
  if (context.node.op == "clip_grad") return InferClip(context);
  return InferSameFloating(context);
}

// Flows between floating dtypes only; Gradients stops at others.
void CastGradient(GradientContext* c) { c->Set(0, Cast(c->grad(), c->input(0).dtype())); }

}  // namespace

std::vector<OpSchema> UnaryOps() {
  return {
      {"neg", 1, 1, 1, {}, InferSameFloating, NegGradient},
      {"exp", 1, 1, 1, {}, InferSameFloating, ExpGradient},
      {"log", 1, 1, 1, {}, InferSameFloating, LogGradient},
      {"sqrt", 1, 1, 1, {}, InferSameFloating, SqrtGradient},
      {"square", 1, 1, 1, {}, InferSameFloating, SquareGradient},
      {"abs", 1, 1, 1, {}, InferSameFloating, AbsGradient},
      {"log1p", 1, 1, 1, {}, InferSameFloating, Log1pGradient},
      {"expm1", 1, 1, 1, {}, InferSameFloating, Expm1Gradient},
      {"rsqrt", 1, 1, 1, {}, InferSameFloating, RsqrtGradient},
      {"sin", 1, 1, 1, {}, InferSameFloating, SinGradient},
      {"cos", 1, 1, 1, {}, InferSameFloating, CosGradient},
      {"atan", 1, 1, 1, {}, InferSameFloating, AtanGradient},
      {"floor", 1, 1, 1, {}, InferSameFloating},
      {"round", 1, 1, 1, {}, InferSameFloating},
      {"round_to_bfloat16", 1, 1, 1, {}, InferSameFloating},
      {"sign", 1, 1, 1, {}, InferSameFloating},
      {"stop_gradient", 1, 1, 1, {}, InferSameFloating},
      {"logical_not", 1, 1, 1, {}, InferNot},
      {"relu", 1, 1, 1, {}, InferSameFloating, ReluGradient},
      {"relu_grad", 2, 2, 1, {}, InferGate, ReluGradGradient},
      {"sigmoid", 1, 1, 1, {}, InferSameFloating, SigmoidGradient},
      {"tanh", 1, 1, 1, {}, InferSameFloating, TanhGradient},
      {"erf", 1, 1, 1, {}, InferSameFloating, ErfGradient},
      {"softplus", 1, 1, 1, {}, InferSameFloating, SoftplusGradient},
      {"clip",
       1,
       1,
       1,
       {{"min", AttrKind::kFloat}, {"max", AttrKind::kFloat}},
       InferClip,
       ClipGradient},
      {"clip_grad",
       2,
       2,
       1,
       {{"min", AttrKind::kFloat}, {"max", AttrKind::kFloat}},
       InferGate,
       ClipGradGradient},
      {"cast", 1, 1, 1, {{"dtype", AttrKind::kString}}, InferCast, CastGradient},
  };
}

}  // namespace cohort::ops
