// RandomZoom (keras/src/layers/preprocessing/image_preprocessing/random_zoom.py).
#include <optional>

#include "common/base/status.h"
#include "common/data/images/affine.h"

namespace cohort {
namespace {

absl::StatusOr<FactorRange> ZoomFactor(const Config& config, std::string_view name) {
  COHORT_ASSIGN_OR_RETURN(const FactorRange factor, FactorOf(config, name));
  if (factor.low > -1) return factor;
  return InvalidArgument("{} must be above -1, not {}", name, factor.low);
}

absl::StatusOr<RecordTransform> OpenRandomZoom(const Config& config,
                                               std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs));
  COHORT_ASSIGN_OR_RETURN(const FactorRange height, ZoomFactor(config, "height_factor"));
  std::optional<FactorRange> width;  // none: the zoom of the height
  if (!config.Floats("width_factor").empty()) {
    COHORT_ASSIGN_OR_RETURN(width, ZoomFactor(config, "width_factor"));
  }
  return RandomAffine(input, config, [height, width, shape = input.shape](RandomDraws* draws) {
    const auto high = static_cast<float>(draws->Uniform(1 + height.low, 1 + height.high));
    if (!width.has_value()) return ZoomMatrix(shape, high, high);
    const auto wide = static_cast<float>(draws->Uniform(1 + width->low, 1 + width->high));
    return ZoomMatrix(shape, high, wide);
  });
}

}  // namespace

TransformClass RandomZoomTransform() {
  return {
      .schema =
          {.name = "RandomZoom",
           .doc = "Zooms each image by a random factor, as Keras' RandomZoom; float32. "
                  "In evaluation: by none.",
           .arguments = AffineArguments(
               {Floats(
                    "height_factor",
                    "By which share the image becomes smaller (positive) or larger: a number f for "
                    "[-f, f], or both bounds.")
                    .Between(-1, 1),
                Floats("width_factor",
                       "Likewise; none: that of the height, which keeps the aspect ratio.")
                    .Optional()
                    .Between(-1, 1)})},
      .for_images = true,
      .open = OpenRandomZoom,
      .open_masks = NearestMasks(OpenRandomZoom)};
}

}  // namespace cohort
