// Elementwise ops of one value, and two that pass a gradient through them.
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

constexpr double kTwoBySqrtPi = 1.1283791670955126;  // 2 / sqrt(pi)

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
  c->Set(0, ReluGrad(c->grad(), c->output()));
  return absl::OkStatus();
}

absl::Status ReluGradGradient(GradientContext* c) {
  if (c->needs(0)) c->Set(0, ReluGrad(c->grad(), c->input(1)));
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

absl::Status ErfGradient(GradientContext* c) {
  c->Set(0, c->grad() * (Exp(-Square(c->input(0))) * kTwoBySqrtPi));
  return absl::OkStatus();
}

absl::Status SoftplusGradient(GradientContext* c) {
  c->Set(0, c->grad() * Sigmoid(c->input(0)));
  return absl::OkStatus();
}

// 1 on the bounds themselves, as in TensorFlow's clip_by_value.
absl::Status ClipGradient(GradientContext* c) {
  c->Set(0, ClipGrad(c->grad(), c->input(0), FloatAttr(c->node(), "min"),
                     FloatAttr(c->node(), "max")));
  return absl::OkStatus();
}

absl::Status ClipGradGradient(GradientContext* c) {
  if (!c->needs(0)) return absl::OkStatus();
  c->Set(0, ClipGrad(c->grad(), c->input(1), FloatAttr(c->node(), "min"),
                     FloatAttr(c->node(), "max")));
  return absl::OkStatus();
}

// The gradient is like the value that it flows through.
absl::Status InferGate(const InferContext& context, std::vector<ValueType>* outputs) {
  if (context.input(0) != context.input(1)) {
    return InvalidArgument("the gradient is {}, and the value {}", TypeToString(context.input(0)),
                           TypeToString(context.input(1)));
  }
  if (context.node.op == "clip_grad") return InferClip(context, outputs);
  return InferSameFloating(context, outputs);
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
