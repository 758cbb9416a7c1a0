// RandomBrightness (keras/src/layers/preprocessing/image_preprocessing/random_brightness.py).
#include "common/base/status.h"
#include "common/data/images/colors.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenRandomBrightness(const Config& config,
                                                     std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs[0]));
  COHORT_ASSIGN_OR_RETURN(const FactorRange factor, FactorOf(config, "factor"));
  COHORT_ASSIGN_OR_RETURN(const ValueRange range, ValueRangeOf(config));
  return RandomColors(input, config, [factor, range](RandomDraws* draws, std::span<float> pixels) {
    const auto share = static_cast<float>(draws->Uniform(factor.low, factor.high));
    const float delta = share * (range.high - range.low);
    for (float& x : pixels) x = range.Clip(x + delta);
  });
}

}  // namespace

TransformClass RandomBrightnessTransform() {
  return {.schema = {.name = "RandomBrightness",
                     .doc = "Adds a random number to each image, as Keras' RandomBrightness; "
                            "float32. In evaluation: none.",
                     .arguments = {Floats("factor",
                                          "The share of the range that is added: a number f for "
                                          "[-f, f], or both bounds.")
                                       .Between(-1, 1),
                                   ValueRangeArgument(), SeedArgument()}},
          .for_images = true,
          .open = OpenRandomBrightness};
}

}  // namespace cohort
