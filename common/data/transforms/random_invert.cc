// RandomInvert (keras/src/layers/preprocessing/image_preprocessing/random_invert.py).
#include "common/base/status.h"
#include "common/data/images/colors.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenRandomInvert(const Config& config,
                                                 std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs[0]));
  COHORT_ASSIGN_OR_RETURN(const FactorRange factor, PositiveFactorOf(config, "factor"));
  COHORT_ASSIGN_OR_RETURN(const ValueRange range, ValueRangeOf(config));
  return RandomColors(input, config, [factor, range](RandomDraws* draws, std::span<float> pixels) {
    const double share = draws->Uniform(factor.low, factor.high);
    if (draws->Uniform(0, 1) >= share) return;
    for (float& x : pixels) x = range.high - x;
  });
}

}  // namespace

TransformClass RandomInvertTransform() {
  return {
      .schema = {.name = "RandomInvert",
                 .doc = "Makes negatives of some of the images, as Keras' RandomInvert; float32. "
                        "In evaluation: of none.",
                 .arguments = {Floats("factor",
                                      "Share of the images: a number f for [0, f], or both "
                                      "bounds.")
                                   .Default(std::vector<double>{1.0})
                                   .Between(0, 1),
                               ValueRangeArgument(), SeedArgument()}},
      .for_images = true,
      .open = OpenRandomInvert};
}

}  // namespace cohort
