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
  COHORT_ASSIGN_OR_RETURN(const FactorRange factor, FactorOf(config, "factor"));
  COHORT_ASSIGN_OR_RETURN(const ValueRange range, ValueRangeOf(config));
  return RandomColors(input, config, [factor, range](RandomDraws* draws, std::span<float> pixels) {
    const double drawn = draws->Uniform(factor.low, factor.high);
    const auto change = static_cast<float>(drawn / (1 - drawn + kSaturationEpsilon));
    ChangeHsv(pixels, [&](float* hsv) { hsv[1] = range.Clip(hsv[1] * change); });
  });
}

}  // namespace

TransformClass RandomSaturationTransform() {
  return {.schema = {.name = "RandomSaturation",
                     .doc = "Multiplies the saturation of each image by a random factor, as Keras' "
                            "RandomSaturation; float32. In evaluation: by none.",
                     .arguments = {Floats("factor",
                                          "0.5 keeps the saturation, 0 and less make the image "
                                          "gray: a number f for [-f, f], or both bounds.")
                                       .Between(-1, 1),
                                   ValueRangeArgument(), SeedArgument()}},
          .for_images = true,
          .open = OpenRandomSaturation};
}

}  // namespace cohort
