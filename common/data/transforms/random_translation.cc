// RandomTranslation (keras/src/layers/preprocessing/image_preprocessing/random_translation.py).
#include "common/base/status.h"
#include "common/data/images/affine.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenRandomTranslation(const Config& config,
                                                      std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs));
  COHORT_ASSIGN_OR_RETURN(const FactorRange height, FactorOf(config, "height_factor"));
  COHORT_ASSIGN_OR_RETURN(const FactorRange width, FactorOf(config, "width_factor"));
  return RandomAffine(input, config, [height, width, shape = input.shape](RandomDraws* draws) {
    const auto down = static_cast<float>(draws->Uniform(height.low, height.high));
    const auto right = static_cast<float>(draws->Uniform(width.low, width.high));
    return AffineMatrix{1, 0, -right * static_cast<float>(shape.width),
                        0, 1, -down * static_cast<float>(shape.height)};
  });
}

Argument TranslationFactor(std::string_view name, std::string_view doc) {
  return Floats(name, doc).Between(-1, 1);
}

}  // namespace

TransformClass RandomTranslationTransform() {
  return {
      .schema =
          {.name = "RandomTranslation",
           .doc = "Moves each image by a random distance, as Keras' RandomTranslation; "
                  "float32. In evaluation: by none.",
           .arguments = AffineArguments(
               {TranslationFactor("height_factor",
                                  "The share of the height, downwards if positive: a number f for "
                                  "[-f, f], or both bounds."),
                TranslationFactor("width_factor",
                                  "The share of the width, to the right if positive: likewise.")})},
      .for_images = true,
      .open = OpenRandomTranslation,
      .open_masks = NearestMasks(OpenRandomTranslation)};
}

}  // namespace cohort
