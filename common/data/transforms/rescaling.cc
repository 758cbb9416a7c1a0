// Rescaling (keras/src/layers/preprocessing/rescaling.py).
#include "common/data/transform_class.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenRescaling(const Config& config,
                                              std::span<const FeatureType> inputs) {
  return RecordTransform{
      .dtype = IsFloating(inputs[0].dtype) ? inputs[0].dtype : DType::kFloat32,
      .dims = inputs[0].dims,
      .conversion = Conversion{.scale = config.Float("scale"), .offset = config.Float("offset")}};
}

}  // namespace

TransformClass RescalingTransform() {
  return {.schema = {.name = "Rescaling",
                     .doc = "x * scale + offset, as Keras' Rescaling; float32 for integers.",
                     .arguments = {Float("scale", "The factor.").Default(1.0),
                                   Float("offset", "Added after scaling.").Default(0.0)}},
          .open = OpenRescaling,
          .elementwise = true};
}

}  // namespace cohort
