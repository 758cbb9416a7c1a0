// RandomHue (keras/src/layers/preprocessing/image_preprocessing/random_hue.py).
#include "common/base/status.h"
#include "common/data/images/colors.h"

namespace cohort {
namespace {

constexpr ValueRange kHueUnit = {0, 1};

absl::StatusOr<RecordTransform> OpenRandomHue(const Config& config,
                                              std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs[0]));
  COHORT_RETURN_IF_ERROR(CheckRgb(input));
  COHORT_ASSIGN_OR_RETURN(const FactorRange factor, PositiveFactorOf(config, "factor"));
  COHORT_ASSIGN_OR_RETURN(const ValueRange range, ValueRangeOf(config));
  return RandomColors(input, config, [factor, range](RandomDraws* draws, std::span<float> pixels) {
    const double sign = draws->Uniform(0, 1) > 0.5 ? -1 : 1;
    const auto turn = static_cast<float>(sign * draws->Uniform(factor.low, factor.high) * 0.5);
    for (float& x : pixels) x = MapRange(x, range, kHueUnit);
    ChangeHsv(pixels, [turn](float* hsv) {
      hsv[0] += turn;
      if (hsv[0] > 1) hsv[0] -= 1;
      if (hsv[0] < 0) hsv[0] += 1;
    });
    for (float& x : pixels) x = MapRange(kHueUnit.Clip(x), kHueUnit, range);
  });
}

}  // namespace

TransformClass RandomHueTransform() {
  return {
      .schema = {.name = "RandomHue",
                 .doc = "Turns the hue of each image by a random angle, as Keras' RandomHue; "
                        "float32. In evaluation: by none.",
                 .arguments = {Floats("factor",
                                      "The share of half a turn, in both directions: a number f "
                                      "for [0, f], or both bounds.")
                                   .Between(0, 1),
                               ValueRangeArgument(), SeedArgument()}},
      .for_images = true,
      .open = OpenRandomHue};
}

}  // namespace cohort
