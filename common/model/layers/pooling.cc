// MaxPooling1D, MaxPooling2D, AveragePooling1D, AveragePooling2D
// (keras/src/layers/pooling/base_pooling.py).
#include "common/model/layers/spatial.h"

namespace cohort {
namespace {

using PoolFn = Expr (*)(Expr, std::vector<int64_t>, std::vector<int64_t>, std::string);

absl::StatusOr<LayerOutput> BuildPooling(LayerContext* context, size_t rank, PoolFn pool) {
  const Config& config = context->config;
  COHORT_ASSIGN_OR_RETURN(const Expr x, SpatialInput(*context, rank));
  COHORT_ASSIGN_OR_RETURN(const auto size, SpatialSizes(config, "pool_size", rank));
  std::vector<int64_t> strides = size;
  if (!config.IsNone("strides")) {
    COHORT_ASSIGN_OR_RETURN(strides, SpatialSizes(config, "strides", rank));
  }
  return pool(x, size, strides, config.String("padding"));
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

}  // namespace cohort
