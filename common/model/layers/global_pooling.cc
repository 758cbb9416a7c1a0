// GlobalAveragePooling1D to 3D, GlobalMaxPooling1D to 3D
// (keras/src/layers/pooling/base_global_pooling.py).
#include <numeric>

#include "common/model/layers/masks.h"
#include "common/model/layers/spatial.h"

namespace cohort {
namespace {

using ReduceFn = Expr (*)(Expr, std::vector<int64_t>, bool);

absl::StatusOr<LayerOutput> BuildGlobalPooling(LayerContext* context, size_t rank,
                                               ReduceFn reduce) {
  COHORT_ASSIGN_OR_RETURN(const Expr x, SpatialInput(*context, rank));
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 1);
  return reduce(x, std::move(axes), context->config.Bool("keepdims"));
}

// Steps that are masked do not count. A record without any step has no mean: NaN, as in Keras.
absl::StatusOr<LayerOutput> BuildMeanOfSteps(LayerContext* context) {
  const Expr mask = context->inputs[0].mask;
  if (!mask.valid()) return BuildGlobalPooling(context, 1, ReduceMean);
  COHORT_ASSIGN_OR_RETURN(const Expr x, SpatialInput(*context, 1));
  COHORT_RETURN_IF_ERROR(CheckMask(mask, x.type()));
  const bool keepdims = context->config.Bool("keepdims");
  const Expr counts = Cast(MaskOver(mask, 3), x.dtype());
  return ReduceSum(WithoutMasked(x, mask), {1}, keepdims) / ReduceSum(counts, {1}, keepdims);
}

LayerClass GlobalPoolingLayer(std::string_view name, std::string_view doc, size_t rank,
                              ReduceFn reduce) {
  return {.schema = LayerSchema(
              name, doc,
              {DataFormatArgument(),
               Bool("keepdims", "True: the reduced axes stay, with size 1.").Default(false)}),
          .build = [rank, reduce](LayerContext* context) {
            return BuildGlobalPooling(context, rank, reduce);
          }};
}

}  // namespace

LayerClass GlobalAveragePooling1DLayer() {
  LayerClass layer = GlobalPoolingLayer(
      "GlobalAveragePooling1D",
      "The mean over the steps of [batch, steps, features] that are not masked.", 1, ReduceMean);
  layer.build = BuildMeanOfSteps;
  return layer;
}
LayerClass GlobalAveragePooling2DLayer() {
  return GlobalPoolingLayer("GlobalAveragePooling2D",
                            "The mean over [batch, rows, columns, channels] of each channel.", 2,
                            ReduceMean);
}
LayerClass GlobalMaxPooling1DLayer() {
  return GlobalPoolingLayer("GlobalMaxPooling1D",
                            "The maximum over the steps of [batch, steps, features].", 1,
                            ReduceMax);
}
LayerClass GlobalMaxPooling2DLayer() {
  return GlobalPoolingLayer("GlobalMaxPooling2D",
                            "The maximum over [batch, rows, columns, channels] of each channel.", 2,
                            ReduceMax);
}

LayerClass GlobalAveragePooling3DLayer() {
  return GlobalPoolingLayer(
      "GlobalAveragePooling3D",
      "The mean over [batch, depth, rows, columns, channels] of each channel.", 3, ReduceMean);
}
LayerClass GlobalMaxPooling3DLayer() {
  return GlobalPoolingLayer(
      "GlobalMaxPooling3D",
      "The maximum over [batch, depth, rows, columns, channels] of each channel.", 3, ReduceMax);
}

}  // namespace cohort
