// RandomSharpness (keras/src/layers/preprocessing/image_preprocessing/random_sharpness.py).
#include "common/base/status.h"
#include "common/data/images/blur.h"
#include "common/data/images/colors.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenRandomSharpness(const Config& config,
                                                    std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs[0]));
  COHORT_ASSIGN_OR_RETURN(const FactorRange factor, PositiveFactorOf(config, "factor"));
  COHORT_ASSIGN_OR_RETURN(const ValueRange range, ValueRangeOf(config));
  ImageFilter smooth = {3, 3, std::vector<float>(9, 1.0F / 13)};
  smooth.values[4] = 5.0F / 13;
  return RandomColors(
      input, config,
      [=, shape = input.shape, smooth = std::move(smooth)](RandomDraws* draws,
                                                           std::span<float> pixels) {
        const auto sharpness = static_cast<float>(2 * draws->Uniform(factor.low, factor.high));
        std::vector<float> smoothed(pixels.size());
        FilterImage(pixels.data(), shape, smooth, smoothed.data());
        for (size_t i = 0; i < pixels.size(); ++i) {
          pixels[i] = range.Clip(pixels[i] + (1 - sharpness) * (smoothed[i] - pixels[i]));
        }
      });
}

}  // namespace

TransformClass RandomSharpnessTransform() {
  return {.schema = {.name = "RandomSharpness",
                     .doc = "Makes each image sharper or smoother at random, as Keras' "
                            "RandomSharpness; float32. In evaluation: none.",
                     .arguments = {Floats("factor",
                                          "0 smooths, 0.5 keeps the image, 1 sharpens it: a number "
                                          "f for [0, f], or both bounds.")
                                       .Between(0, 1),
                                   ValueRangeArgument(), SeedArgument()}},
          .for_images = true,
          .open = OpenRandomSharpness};
}

}  // namespace cohort
