// Layers that keras.applications has for itself: LayerScale (convnext.py), CustomScaleLayer
// (inception_resnet_v2.py).
#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildLayerScale(LayerContext* context) {
  const int64_t size = context->config.Int("projection_dim");
  const auto first =
      ClassOf("Constant", {{"value", ConfigOf(context->config.Float("init_values"))}});
  COHORT_ASSIGN_OR_RETURN(const Expr factors, context->WeightOf("variable", {size}, first));
  return context->FloatInput(0) * factors;
}

}  // namespace

LayerClass LayerScaleLayer() {
  return {.schema = LayerSchema("LayerScale",
                                "A factor for each channel, as in ConvNeXt of keras.applications.",
                                {Float("init_values", "The first factors."),
                                 Int("projection_dim", "The number of channels.").AtLeast(1)}),
          .build = BuildLayerScale};
}

LayerClass CustomScaleLayerLayer() {
  return {.schema = LayerSchema(
              "CustomScaleLayer",
              "Input 0 + scale times input 1, as in InceptionResNetV2 of keras.applications.",
              {Float("scale", "The factor.")}),
          .min_inputs = 2,
          .max_inputs = 2,
          .build = [](LayerContext* context) -> absl::StatusOr<LayerOutput> {
            return context->FloatInput(0) + context->FloatInput(1) * context->config.Float("scale");
          }};
}

}  // namespace cohort
