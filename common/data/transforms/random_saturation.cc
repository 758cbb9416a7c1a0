// RandomSaturation (keras/src/layers/preprocessing/image_preprocessing/random_saturation.py).
#include "common/base/status.h"
#include "common/data/images/colors.h"

namespace cohort {
namespace {

constexpr double kSaturationEpsilon = 1e-7;  // keras.backend.epsilon()

absl::StatusOr<RecordTransform> OpenRandomSaturation(const Config& config,
                                                     std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs[0]));
  COHORT_RETURN_IF_ERROR(CheckRgb(input));
  COHORT_ASSIGN_OR_RETURN(const FactorRange factor, PositiveFactorOf(config, "factor"));
  COHORT_ASSIGN_OR_RETURN(const ValueRange range, ValueRangeOf(config));
  return RandomColors(input, config, [factor, range](RandomDraws* draws, std::span<float> pixels) {
    const double drawn = draws->Uniform(factor.low, factor.high);
    const auto change = static_cast<float>(drawn / (1 - drawn + kSaturationEpsilon));
    for (size_t i = 0; i < pixels.size(); i += 3) {
      float* const pixel = &pixels[i];
      RgbToHsv(pixel);
      pixel[1] = range.Clip(pixel[1] * change);
      HsvToRgb(pixel);
    }
  });
}

}  // namespace

TransformClass RandomSaturationTransform() {
  return {.schema = {.name = "RandomSaturation",
                     .doc = "Multiplies the saturation of each image by a random factor, as Keras' "
                            "RandomSaturation; float32. In evaluation: by none.",
                     .arguments = {Floats("factor",
                                          "0.5 keeps the saturation, 0 makes the image gray: a "
                                          "number f for [0, f], or both bounds.")
                                       .Between(0, 1),
                                   ValueRangeArgument(), SeedArgument()}},
          .open = OpenRandomSaturation};
}

}  // namespace cohort
