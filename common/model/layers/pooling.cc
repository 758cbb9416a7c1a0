// MaxPooling1D to 3D, AveragePooling1D to 3D
// (keras/src/layers/pooling/base_pooling.py).
#include "common/model/layers/spatial.h"

namespace cohort {
namespace {

using PoolFn = Expr (*)(Expr, std::vector<int64_t>, std::vector<int64_t>, std::string);

// Windows of volumes, slice by slice and then along the depth.
Expr PoolVolumes(Expr x, const std::vector<int64_t>& size, const std::vector<int64_t>& strides,
                 const std::string& padding, PoolFn pool) {
  const ValueType type = x.type();
  const int64_t depth = type.dims[1].size, channels = type.dims[4].size;
  const Expr slices = Reshape(x, {-1, type.dims[2].size, type.dims[3].size, channels});
  const Expr pooled = pool(slices, {size[1], size[2]}, {strides[1], strides[2]}, padding);
  if (!pooled.valid()) return pooled;
  const int64_t rows = pooled.type().dims[1].size, columns = pooled.type().dims[2].size;
  const Expr y = pool(Reshape(pooled, {-1, depth, rows * columns, channels}), {size[0], 1},
                      {strides[0], 1}, padding);
  if (!y.valid()) return y;
  return Reshape(y, {-1, y.type().dims[1].size, rows, columns, channels});
}

absl::StatusOr<LayerOutput> BuildPooling(LayerContext* context, size_t rank, PoolFn pool) {
  const Config& config = context->config;
  COHORT_ASSIGN_OR_RETURN(const Expr x, SpatialInput(*context, rank));
  COHORT_ASSIGN_OR_RETURN(const auto size, SpatialSizes(config, "pool_size", rank));
  std::vector<int64_t> strides = size;
  if (!config.IsNone("strides")) {
    COHORT_ASSIGN_OR_RETURN(strides, SpatialSizes(config, "strides", rank));
  }
  const std::string& padding = config.String("padding");
  return rank == 3 ? PoolVolumes(x, size, strides, padding, pool) : pool(x, size, strides, padding);
}

LayerClass PoolingLayer(std::string_view name, std::string_view doc, size_t rank, PoolFn pool) {
  return {
      .schema = LayerSchema(
          name, doc,
          {Ints("pool_size", "Size of a window.").Default(std::vector<int64_t>(rank, 2)).AtLeast(1),
           Ints("strides", "Distance between two windows; none: pool_size.").Optional().AtLeast(1),
           String("padding", "same: windows may begin before and end after the input.")
               .Default("valid")
               .OneOf({"valid", "same"}),
           DataFormatArgument()}),
      .build = [rank, pool](LayerContext* context) { return BuildPooling(context, rank, pool); }};
}

}  // namespace

LayerClass MaxPooling1DLayer() {
  return PoolingLayer("MaxPooling1D",
                      "The maximum of each window of steps of [batch, steps, features].", 1,
                      MaxPool);
}
LayerClass MaxPooling2DLayer() {
  return PoolingLayer("MaxPooling2D",
                      "The maximum of each window of [batch, rows, columns, channels].", 2,
                      MaxPool);
}
LayerClass AveragePooling1DLayer() {
  return PoolingLayer("AveragePooling1D",
                      "The mean of each window of steps of [batch, steps, features].", 1, AvgPool);
}
LayerClass AveragePooling2DLayer() {
  return PoolingLayer("AveragePooling2D",
                      "The mean of each window of [batch, rows, columns, channels].", 2, AvgPool);
}

LayerClass MaxPooling3DLayer() {
  return PoolingLayer("MaxPooling3D",
                      "The maximum of each window of [batch, depth, rows, columns, channels].", 3,
                      MaxPool);
}
LayerClass AveragePooling3DLayer() {
  return PoolingLayer("AveragePooling3D",
                      "The mean of each window of [batch, depth, rows, columns, channels].", 3,
                      AvgPool);
}

}  // namespace cohort
