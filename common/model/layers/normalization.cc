// Normalization (keras/src/layers/preprocessing/normalization.py). Its moments are given, or loaded
// with the weights of a model whose layer was adapted. A layer that learns them is a transform of
// the data (common/model/input_layers.h).
#include <algorithm>
#include <cmath>

#include "common/graph/expr.h"
#include "common/model/layers/axes.h"
#include "common/model/layers/layer.h"
#include "common/model/layers/normalize.h"

namespace cohort {
namespace {

// The dims of `count` numbers, which belong to the last of these axes; broadcasts over x. One
// number serves all.
absl::StatusOr<std::vector<int64_t>> MomentDims(int64_t count, std::span<const int64_t> axes,
                                                const ValueType& type) {
  std::vector<int64_t> dims(type.dims.size(), 1);
  int64_t elements = 1;
  for (size_t i = axes.size(); i-- > 0 && elements != count;) {
    const auto axis = static_cast<size_t>(axes[i]);
    dims[axis] = type.dims[axis].size;
    elements *= dims[axis];
  }
  if (elements == count) return dims;
  return InvalidArgument("mean has {} numbers, which do not suit the axes {} of {}", count,
                         DimsToString(axes), TypeToString(type));
}

// What the layer subtracts and divides by.
struct Moments {
  Expr mean, deviation;
};

absl::StatusOr<Moments> GivenMoments(const LayerContext& context, Expr x,
                                     std::span<const int64_t> axes) {
  const std::vector<double> mean = context.config.Floats("mean");
  std::vector<double> deviation = context.config.Floats("variance");
  if (mean.size() != deviation.size() || mean.empty()) {
    return InvalidArgument("mean has {} numbers, and variance {}", mean.size(), deviation.size());
  }
  for (double& value : deviation) {
    if (value < 0) return InvalidArgument("a variance is negative: {}", value);
    value = std::max(std::sqrt(value), kKerasEpsilon);
  }
  COHORT_ASSIGN_OR_RETURN(const auto dims,
                          MomentDims(static_cast<int64_t>(mean.size()), axes, x.type()));
  const auto constant = [&](const std::vector<double>& values) {
    return Cast(x.builder()->Constant(Tensor::FromValues<double>(dims, values)), x.dtype());
  };
  return Moments{constant(mean), constant(deviation)};
}

// Variables, which no training changes: as in a layer of Keras that saw no data, until
// `initial_weights` fills them.
absl::StatusOr<Moments> LoadedMoments(LayerContext* context, Expr x,
                                      std::span<const int64_t> axes) {
  if (context->config.Has("mean") || context->config.Has("variance")) {
    return InvalidArgument("mean and variance belong together: give both or none");
  }
  const ValueType type = x.type();
  std::vector<int64_t> kept;
  for (const int64_t axis : axes) kept.push_back(type.dims[static_cast<size_t>(axis)].size);
  const auto read = [&](std::string_view suffix, std::string_view first) -> absl::StatusOr<Expr> {
    COHORT_ASSIGN_OR_RETURN(const ValueType kept_type,
                            context->AddState(suffix, kept, ClassOf(first)));
    return Reshape(context->builder->Read(context->VariableName(suffix), kept_type),
                   BroadcastOver(axes, type));
  };
  COHORT_ASSIGN_OR_RETURN(const Expr mean, read("mean", "Zeros"));
  COHORT_ASSIGN_OR_RETURN(const Expr variance, read("variance", "Ones"));
  return Moments{mean, Maximum(Sqrt(variance), context->builder->Scalar(kKerasEpsilon, x.dtype()))};
}

absl::StatusOr<LayerOutput> BuildNormalization(LayerContext* context) {
  const Config& config = context->config;
  const Expr x = context->FloatInput(0);
  COHORT_ASSIGN_OR_RETURN(const auto axes, LayerAxes(config.Ints("axis"), x.type()));
  const bool given = config.Has("mean") && config.Has("variance");
  COHORT_ASSIGN_OR_RETURN(const Moments moments, given ? GivenMoments(*context, x, axes)
                                                       : LoadedMoments(context, x, axes));
  if (config.Bool("invert")) return moments.mean + x * moments.deviation;
  return (x - moments.mean) / moments.deviation;
}

}  // namespace

LayerClass NormalizationLayer() {
  return {
      .schema = LayerSchema(
          "Normalization", "(x - mean) / sqrt(variance), with moments of the training data.",
          {Ints("axis", "Axes with moments of their own; an empty list: one mean for everything.")
               .Default(std::vector<int64_t>{-1}),
           Floats("mean",
                  "The means along the axes. None: learned from the training data at an Input; "
                  "elsewhere and with "
                  "initial_weights, a variable that they fill, or 0.")
               .Optional()
               .Nested(),
           Floats("variance", "The variances. None: as mean, or 1.").Optional().Nested(),
           Bool("invert", "True: mean + x sqrt(variance).").Default(false)}),
      .mask = MaskRule::kPass,
      .build = BuildNormalization};
}

}  // namespace cohort
