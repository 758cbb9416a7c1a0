// Batch normalization over the last axis, in training: with the statistics of the batch itself.
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

absl::Status CheckEpsilon(const InferContext& context) {
  const double epsilon = FloatAttr(context.node, "epsilon");
  if (epsilon >= 0) return absl::OkStatus();
  return InvalidArgument("epsilon must be 0 or more, not {}", epsilon);
}

// The type of one number per channel of an input.
absl::StatusOr<ValueType> ChannelType(const InferContext& context, size_t input) {
  COHORT_RETURN_IF_ERROR(CheckFloating(context, input));
  COHORT_RETURN_IF_ERROR(CheckLastAxisStatic(context, input));
  const ValueType& type = context.input(input);
  if (type.dims.size() < 2) {
    return InvalidArgument("input {} must have an axis beside its channels, not {}", input,
                           TypeToString(type));
  }
  return ValueType{type.dtype, {type.dims.back()}};
}

absl::Status CheckChannelTypes(const InferContext& context, size_t begin, const ValueType& want) {
  for (size_t i = begin; i < context.inputs.size(); ++i) {
    if (context.input(i) == want) continue;
    return InvalidArgument("input {} must be {}, not {}", i, TypeToString(want),
                           TypeToString(context.input(i)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Types> InferTrain(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckEpsilon(context));
  COHORT_ASSIGN_OR_RETURN(const ValueType channel, ChannelType(context, 0));
  COHORT_RETURN_IF_ERROR(CheckChannelTypes(context, 1, channel));
  return Types{context.input(0), channel, channel};
}

absl::StatusOr<Types> InferGrad(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckEpsilon(context));
  COHORT_ASSIGN_OR_RETURN(const ValueType channel, ChannelType(context, 0));
  if (context.input(0) != context.input(1)) {
    return InvalidArgument("inputs 0 and 1 have different types: {} and {}",
                           TypeToString(context.input(0)), TypeToString(context.input(1)));
  }
  COHORT_RETURN_IF_ERROR(CheckChannelTypes(context, 2, channel));
  return Types{context.input(0), channel, channel};
}

// The gradient that flows through the mean and the variance, which are outputs too.
Expr StatisticsGradient(GradientContext* c) {
  const Expr x = c->input(0);
  const double channels = static_cast<double>(x.type().dims.back().size);
  const Expr count = NumElements(x) / channels;
  Expr sum;
  if (c->grad(1).valid()) sum = BroadcastLike(c->grad(1) / count, x);
  if (c->grad(2).valid()) {
    const Expr part = (x - c->output(1)) * (c->grad(2) * 2.0 / count);
    sum = sum.valid() ? sum + part : part;
  }
  return sum;
}

void TrainGradient(GradientContext* c) {
  Expr dx = c->needs(0) ? StatisticsGradient(c) : Expr();
  if (c->grad().valid()) {
    const std::vector<Expr> inputs = {c->grad(), c->input(0), c->input(1), c->output(1),
                                      c->output(2)};
    const auto grads = c->builder()->OpOutputs("batch_norm_grad", inputs, c->node().attrs);
    if (c->needs(0)) dx = dx.valid() ? dx + grads[0] : grads[0];
    if (c->needs(1)) c->Set(1, grads[1]);
    if (c->needs(2)) c->Set(2, grads[2]);
  }
  if (dx.valid()) c->Set(0, dx);
}

// Programs of this project differentiate once. A silent zero would be wrong.
void GradGradient(GradientContext* c) {
  c->builder()->Fail(Unimplemented(
      "gradient of 'batch_norm_grad': batch normalization cannot be differentiated twice"));
}

}  // namespace

std::vector<OpSchema> BatchNormOps() {
  const std::vector<AttrSchema> attrs = {{"epsilon", AttrKind::kFloat}};
  return {
      {"batch_norm_train", 3, 3, 3, attrs, InferTrain, TrainGradient},
      {"batch_norm_grad", 5, 5, 3, attrs, InferGrad, GradGradient},
  };
}

}  // namespace cohort::ops
