#include "common/model/layers/dropout_mask.h"

#include <algorithm>

#include "common/graph/expr.h"

namespace cohort {
namespace {

// Ones of the shape of the mask.
absl::StatusOr<Expr> OnesOf(Expr x, std::span<const int64_t> noise_shape) {
  const ValueType type = x.type();
  if (noise_shape.size() != type.dims.size()) {
    return InvalidArgument("noise_shape {} does not have the axes of {}", DimsToString(noise_shape),
                           TypeToString(type));
  }
  Expr like = x;
  Dims dims;
  for (size_t i = 0; i < noise_shape.size(); ++i) {
    const int64_t size = type.dims[i].size;
    dims.push_back(noise_shape[i] == -1 ? size : noise_shape[i]);
    if (dims[i] == 1 && size != 1 && i > 0) like = Slice(like, static_cast<int64_t>(i), 0, 1);
    if (dims[i] == 1 || (i > 0 && dims[i] == size) || noise_shape[i] == -1) continue;
    return InvalidArgument("axis {} of noise_shape {} must be 1 or none for {}", i,
                           DimsToString(noise_shape), TypeToString(type));
  }
  const Expr one = x.builder()->Scalar(1, x.dtype());
  if (noise_shape[0] == -1) return BroadcastLike(one, like);
  // One mask for the whole batch.
  return BroadcastLike(one, x.builder()->Constant(Tensor::Zeros(x.dtype(), dims)));
}

}  // namespace

Argument NoiseShapeArgument() {
  return Ints("noise_shape",
              "Shape of the mask: 1 for an axis that shares it, none for the others.")
      .Optional()
      .NoneItems();
}

Argument DropoutSeedArgument() {
  return Int("seed", "Combined with the seed of the job; none counts as 0.").Optional();
}

absl::StatusOr<LayerOutput> DropOut(LayerContext* context, std::span<const int64_t> noise_shape) {
  const double rate = context->config.Float("rate");
  if (!context->training || rate == 0) return context->inputs[0];
  const Expr x = context->FloatInput(0);
  if (rate == 1) return BroadcastLike(context->builder->Scalar(0, x.dtype()), x);
  // An unset seed is 0: the numbers depend on the seed of the job, too.
  const int64_t seed = context->config.Int("seed");
  const bool whole =
      std::all_of(noise_shape.begin(), noise_shape.end(), [](int64_t size) { return size == -1; });
  if (whole) return Dropout(x, rate, seed).first;
  COHORT_ASSIGN_OR_RETURN(const Expr ones, OnesOf(x, noise_shape));
  return x * Dropout(ones, rate, seed).first;
}

absl::StatusOr<Expr> KeptShare(LayerContext* context, std::span<const int64_t> noise_shape) {
  const Expr x = context->FloatInput(0);
  Expr ones = BroadcastLike(context->builder->Scalar(1, x.dtype()), x);
  if (!noise_shape.empty()) {
    COHORT_ASSIGN_OR_RETURN(ones, OnesOf(x, noise_shape));
  }
  const Expr mask = Dropout(ones, context->config.Float("rate"), context->config.Int("seed")).first;
  return Cast(Greater(mask, context->builder->Scalar(0, x.dtype())), x.dtype());
}

}  // namespace cohort
