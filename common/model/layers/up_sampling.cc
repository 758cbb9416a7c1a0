// UpSampling1D, UpSampling2D and UpSampling3D (keras/src/layers/reshaping/up_sampling1d.py,
// up_sampling2d.py, up_sampling3d.py).
#include <algorithm>
#include <cmath>

#include "common/graph/expr.h"
#include "common/model/layers/axes.h"
#include "common/model/layers/layer.h"
#include "common/model/layers/spatial.h"

namespace cohort {
namespace {

// Each element of the axis `factor` times.
Expr RepeatAlong(Expr x, int64_t axis, int64_t factor) {
  if (!x.valid() || factor == 1) return x;
  std::vector<int64_t> dims = ReshapeDims(x.type().dims), result = dims;
  dims.insert(dims.begin() + axis + 1, 1);
  result[static_cast<size_t>(axis)] *= factor;
  std::vector<int64_t> zeros(x.rank() - static_cast<size_t>(axis), 1);
  zeros[0] = factor;
  const Expr repeated =
      Reshape(x, std::move(dims)) + x.builder()->Constant(Tensor::Zeros(x.dtype(), zeros));
  return Reshape(repeated, std::move(result));
}

// [size, size * factor]: the weight of each element in each result of linear interpolation, with
// pixels whose centers are at halves, as tf.image.resize has it.
Tensor LinearWeights(int64_t size, int64_t factor) {
  const int64_t width = size * factor;
  Tensor weights = Tensor::Zeros(DType::kFloat64, {size, width});
  for (int64_t i = 0; i < width; ++i) {
    const double at = (static_cast<double>(i) + 0.5) / static_cast<double>(factor) - 0.5;
    const double below = std::floor(at);
    const auto at_element = [&](double element) -> double& {
      const auto row = std::clamp<int64_t>(static_cast<int64_t>(element), 0, size - 1);
      return weights.mutable_values<double>()[static_cast<size_t>(row * width + i)];
    };
    at_element(below) += 1 - (at - below);
    at_element(below + 1) += at - below;
  }
  return weights;
}

Expr InterpolateAlong(Expr x, int64_t axis, int64_t factor) {
  if (!x.valid() || factor == 1) return x;
  std::vector<int64_t> perm;
  for (size_t i = 0; i < x.rank(); ++i) perm.push_back(static_cast<int64_t>(i));
  std::swap(perm[static_cast<size_t>(axis)], perm.back());
  const Expr moved = Transpose(x, perm);
  if (!moved.valid()) return {};
  std::vector<int64_t> dims = ReshapeDims(moved.type().dims);
  const int64_t size = dims.back();
  const Expr weights = Cast(x.builder()->Constant(LinearWeights(size, factor)), x.dtype());
  dims.back() *= factor;
  const Expr rows = MatMul(Reshape(moved, {-1, size}), weights);
  return Transpose(Reshape(rows, std::move(dims)), perm);
}

absl::StatusOr<LayerOutput> BuildUpSampling1D(LayerContext* context) {
  const Expr x = context->FloatInput(0);
  COHORT_RETURN_IF_ERROR(CheckAxes(x.type(), 3, "[batch, steps, features]"));
  return RepeatAlong(x, 1, context->config.Int("size"));
}

absl::StatusOr<LayerOutput> BuildUpSampling2D(LayerContext* context) {
  Expr x = context->FloatInput(0);
  COHORT_RETURN_IF_ERROR(CheckAxes(x.type(), 4, "[batch, rows, columns, channels]"));
  std::vector<int64_t> size = context->config.Ints("size");
  if (size.size() == 1) size.push_back(size[0]);
  if (size.size() != 2) return InvalidArgument("size must be one number, or [rows, columns]");
  const bool nearest = context->config.String("interpolation") == "nearest";
  for (size_t i = 0; i < 2; ++i) {
    const auto axis = static_cast<int64_t>(i + 1);
    x = nearest ? RepeatAlong(x, axis, size[i]) : InterpolateAlong(x, axis, size[i]);
  }
  return x;
}

absl::StatusOr<LayerOutput> BuildUpSampling3D(LayerContext* context) {
  COHORT_ASSIGN_OR_RETURN(Expr x, SpatialInput(*context, 3));
  COHORT_ASSIGN_OR_RETURN(const auto size, SpatialSizes(context->config, "size", 3));
  for (size_t i = 0; i < 3; ++i) x = RepeatAlong(x, static_cast<int64_t>(i + 1), size[i]);
  return x;
}

}  // namespace

LayerClass UpSampling1DLayer() {
  return {.schema = LayerSchema("UpSampling1D", "Repeats each step of [batch, steps, features].",
                                {Int("size", "How often.").Default(2).Between(1, 65536)}),
          .build = BuildUpSampling1D};
}

LayerClass UpSampling2DLayer() {
  return {.schema = LayerSchema("UpSampling2D",
                                "Enlarges the images of [batch, rows, columns, channels].",
                                {Ints("size", "The factor, or [rows, columns].")
                                     .Default(std::vector<int64_t>{2, 2})
                                     .Between(1, 65536),
                                 DataFormatArgument(),
                                 String("interpolation", "nearest repeats; bilinear interpolates.")
                                     .Default("nearest")
                                     .OneOf({"nearest", "bilinear"})}),
          .build = BuildUpSampling2D};
}

LayerClass UpSampling3DLayer() {
  return {.schema = LayerSchema("UpSampling3D",
                                "Repeats the elements of [batch, depth, rows, columns, channels].",
                                {Ints("size", "The factor, or one for each axis.")
                                     .Default(std::vector<int64_t>{2, 2, 2})
                                     .Between(1, 65536),
                                 DataFormatArgument()}),
          .build = BuildUpSampling3D};
}

}  // namespace cohort
