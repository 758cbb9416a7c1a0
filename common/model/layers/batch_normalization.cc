// BatchNormalization (keras/src/layers/normalization/batch_normalization.py).
#include <algorithm>

#include "common/graph/expr.h"
#include "common/model/layers/axes.h"
#include "common/model/layers/masks.h"
#include "common/model/regularizers.h"
#include "common/optimizers/constraints.h"

namespace cohort {
namespace {

// moving = moving * momentum + of the batch * (1 - momentum), on the servers.
void PushAverage(LayerContext* context, std::string_view suffix, Expr value) {
  Push push;
  push.variable = context->builder->DeclareVariable(context->VariableName(suffix), value.type());
  push.kind = PushKind::kEma;
  push.value = value.id();
  push.momentum = context->config.Float("momentum");
  context->builder->AddPush(push);
}

// The variables of the layer; gamma and beta have no value if the layer has none.
struct Weights {
  Expr gamma, beta;
  ValueType statistics;
};

absl::StatusOr<Weights> MakeWeights(LayerContext* context, int64_t channels) {
  const Config& config = context->config;
  Weights w;
  if (config.Bool("scale")) {
    COHORT_ASSIGN_OR_RETURN(w.gamma, context->Weight("gamma", {channels}, "gamma_initializer"));
  }
  if (config.Bool("center")) {
    COHORT_ASSIGN_OR_RETURN(w.beta, context->Weight("beta", {channels}, "beta_initializer"));
  }
  COHORT_ASSIGN_OR_RETURN(
      w.statistics,
      context->AddState("moving_mean", {channels}, config.Object("moving_mean_initializer")));
  COHORT_RETURN_IF_ERROR(
      context->AddState("moving_variance", {channels}, config.Object("moving_variance_initializer"))
          .status());
  return w;
}

// The variance of a sample of `count` values, as PyTorch's moving variance takes it.
Expr Unbiased(Expr variance, Expr count) {
  constexpr double kTiny = 1e-30;  // a variance of one value is 0, and stays 0
  return variance * (count / (count - 1.0 + kTiny));
}

// With the statistics of the batch, which are pushed into the moving ones.
Expr NormalizeByBatch(LayerContext* context, Expr x, const Weights& w) {
  const int64_t channels = w.statistics.dims[0].size;
  const auto constant = [&](double value) {
    Tensor all = Tensor::Zeros(x.dtype(), {channels});
    if (x.dtype() == DType::kFloat32) {
      std::ranges::fill(all.mutable_values<float>(), static_cast<float>(value));
    } else {
      std::ranges::fill(all.mutable_values<double>(), value);
    }
    return context->builder->Constant(all);
  };
  const Expr gamma = w.gamma.valid() ? w.gamma : constant(1);
  const Expr beta = w.beta.valid() ? w.beta : constant(0);
  const auto [y, mean, variance] = BatchNormTrain(x, gamma, beta, context->config.Float("epsilon"));
  if (!y.valid()) return y;
  PushAverage(context, "moving_mean", mean);
  const bool unbiased = context->config.Bool("unbiased_variance");
  PushAverage(
      context, "moving_variance",
      unbiased ? Unbiased(variance, NumElements(x) / static_cast<double>(channels)) : variance);
  return y;
}

struct BatchMoments {
  Expr mean, variance;  // [channels]
  Expr count;           // the number of values; none for moving moments
};

// Over what the mask, 0 or 1 and of the type of x, leaves in (_moments).
BatchMoments MaskedMoments(Expr x, Expr mask) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i + 1 < static_cast<int64_t>(x.rank()); ++i) axes.push_back(i);
  constexpr double kEpsilon = 1e-7;
  const Expr count = ReduceSum(mask, axes) + kEpsilon;
  const Expr mean = ReduceSum(x * mask, axes) / count;
  return {mean, ReduceSum(Square((x - mean) * mask), axes) / count, count};
}

// (x - mean) gamma / sqrt(variance + epsilon) + beta
Expr NormalizeBy(const LayerContext& context, Expr x, const BatchMoments& moments,
                 const Weights& w) {
  const Expr deviation = Sqrt(moments.variance + context.config.Float("epsilon"));
  const Expr scale = w.gamma.valid() ? w.gamma / deviation : 1.0 / deviation;
  const Expr shift = moments.mean * scale;
  return x * scale + (w.beta.valid() ? w.beta - shift : -shift);
}

// As NormalizeByBatch, without the masked steps.
Expr NormalizeByMasked(LayerContext* context, Expr x, Expr mask, const Weights& w) {
  const BatchMoments moments = MaskedMoments(x, mask);
  const Expr y = NormalizeBy(*context, x, moments, w);
  if (!y.valid()) return y;
  PushAverage(context, "moving_mean", moments.mean);
  const bool unbiased = context->config.Bool("unbiased_variance");
  PushAverage(context, "moving_variance",
              unbiased ? Unbiased(moments.variance, moments.count) : moments.variance);
  return y;
}

// With the moving statistics: x * scale + offset.
Expr NormalizeByMoving(LayerContext* context, Expr x, const Weights& w) {
  const auto read = [&](std::string_view suffix) {
    return context->builder->Read(context->VariableName(suffix), w.statistics);
  };
  return NormalizeBy(*context, x, {read("moving_mean"), read("moving_variance"), {}}, w);
}

absl::StatusOr<LayerOutput> BuildBatchNormalization(LayerContext* context) {
  const Config& config = context->config;
  if (config.Bool("synchronized")) {
    return InvalidArgument(
        "synchronized: true is not supported; the statistics of a step are those of each worker's "
        "batch, and in mode sync the moving ones take their mean");
  }
  // A frozen layer uses the moving statistics in training too, and updates none.
  const bool by_batch = context->training && config.Bool("trainable");
  if (by_batch && context->is_shared) {
    return InvalidArgument(
        "it is called twice, and its moving statistics take one batch in a step; use two layers");
  }
  Expr x = context->FloatInput(0);
  const auto rank = static_cast<int64_t>(x.rank());
  const int64_t given = config.Int("axis"), axis = given < 0 ? given + rank : given;
  if (axis < 1 || axis >= rank) {
    return InvalidArgument("axis {} is not one of {} after the batch", given,
                           TypeToString(x.type()));
  }
  const bool is_last = axis == rank - 1;
  const AxesLast moved = MoveLast(x.rank(), std::span(&axis, 1));
  Expr mask = by_batch ? context->inputs[0].mask : Expr();
  if (mask.valid()) {
    COHORT_RETURN_IF_ERROR(CheckMask(mask, x.type()));
    mask = BroadcastLike(Cast(MaskOver(mask, x.rank()), x.dtype()), x);
    if (!is_last) mask = Transpose(mask, moved.there);
  }
  if (!is_last) x = Transpose(x, moved.there);
  COHORT_ASSIGN_OR_RETURN(const Weights w, MakeWeights(context, x.type().dims.back().size));
  const Expr y = mask.valid() ? NormalizeByMasked(context, x, mask, w)
                 : by_batch   ? NormalizeByBatch(context, x, w)
                              : NormalizeByMoving(context, x, w);
  return is_last ? y : Transpose(y, moved.back);
}

}  // namespace

LayerClass BatchNormalizationLayer() {
  return {
      .schema = LayerSchema(
          "BatchNormalization",
          "Normalizes each channel by mean and variance of the batch, or by moving ones.",
          {Int("axis", "The axis of the channels.").Default(-1),
           Float("momentum", "The old part of a new moving statistic.").Default(0.99).Between(0, 1),
           Float("epsilon", "Added to variances.").Default(0.001).AtLeast(0),
           Bool("center", "False: no offset beta.").Default(true),
           Bool("scale", "False: no factor gamma.").Default(true),
           InitializerArgument("beta_initializer", "Zeros", "First beta."),
           InitializerArgument("gamma_initializer", "Ones", "First gamma."),
           InitializerArgument("moving_mean_initializer", "Zeros", "First moving mean."),
           InitializerArgument("moving_variance_initializer", "Ones", "First moving variance."),
           RegularizerArgument("beta_regularizer"), RegularizerArgument("gamma_regularizer"),
           ConstraintArgument("beta_constraint"), ConstraintArgument("gamma_constraint"),
           Planned(Bool("renorm", "").Default(false)), Planned("renorm_clipping"),
           Planned(Float("renorm_momentum", "").Default(0.99)),
           Bool("unbiased_variance",
                "True: the moving variance takes that of a sample, as in PyTorch.")
               .Default(false),
           Bool("synchronized", "Only false: each worker normalizes by its own batch.")
               .Default(false)}),
      .mask = MaskRule::kPass,
      .build = BuildBatchNormalization};
}

}  // namespace cohort
