// RandomContrast (keras/src/layers/preprocessing/image_preprocessing/random_contrast.py).
#include "common/base/status.h"
#include "common/data/images/colors.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenRandomContrast(const Config& config,
                                                   std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs[0]));
  COHORT_ASSIGN_OR_RETURN(const FactorRange factor, PositiveFactorOf(config, "factor"));
  COHORT_ASSIGN_OR_RETURN(const ValueRange range, ValueRangeOf(config));
  const auto channels = static_cast<size_t>(input.shape.channels);
  return RandomColors(
      input, config, [factor, range, channels](RandomDraws* draws, std::span<float> pixels) {
        const auto contrast = static_cast<float>(draws->Uniform(1 - factor.low, 1 + factor.high));
        for (size_t channel = 0; channel < channels; ++channel) {
          double sum = 0;
          for (size_t i = channel; i < pixels.size(); i += channels) sum += pixels[i];
          const auto mean = static_cast<float>(sum / static_cast<double>(pixels.size() / channels));
          for (size_t i = channel; i < pixels.size(); i += channels) {
            pixels[i] = range.Clip((pixels[i] - mean) * contrast + mean);
          }
        }
      });
}

}  // namespace

TransformClass RandomContrastTransform() {
  return {
      .schema = {.name = "RandomContrast",
                 .doc = "Moves the pixels of each image away from their mean, or towards it, as "
                        "Keras' RandomContrast; float32. In evaluation: by none.",
                 .arguments = {Floats("factor",
                                      "The factor of the distance is in [1 - a, 1 + b]: two "
                                      "numbers a and b; one number b: a is 0, as in Keras.")
                                   .Between(-1, 1),
                               ValueRangeArgument(), SeedArgument()}},
      .for_images = true,
      .open = OpenRandomContrast};
}

}  // namespace cohort
