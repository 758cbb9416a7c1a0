// RandomColorDegeneration
// (keras/src/layers/preprocessing/image_preprocessing/random_color_degeneration.py).
#include "common/base/status.h"
#include "common/data/images/colors.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenRandomColorDegeneration(const Config& config,
                                                            std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs[0]));
  COHORT_RETURN_IF_ERROR(CheckRgb(input));
  COHORT_ASSIGN_OR_RETURN(const FactorRange factor, FactorOf(config, "factor"));
  COHORT_ASSIGN_OR_RETURN(const ValueRange range, ValueRangeOf(config));
  return RandomColors(input, config, [factor, range](RandomDraws* draws, std::span<float> pixels) {
    const auto share = static_cast<float>(draws->Uniform(factor.low, factor.high));
    for (size_t i = 0; i < pixels.size(); i += 3) {
      const float gray = GrayOf(&pixels[i]);
      for (float& x : pixels.subspan(i, 3)) x = range.Clip(x + share * (gray - x));
    }
  });
}

}  // namespace

TransformClass RandomColorDegenerationTransform() {
  return {.schema = {.name = "RandomColorDegeneration",
                     .doc = "Moves the colors of each image towards gray, or away from it, as "
                            "Keras' RandomColorDegeneration; float32, with 3 channels. In "
                            "evaluation: of none.",
                     .arguments = {Floats("factor",
                                          "0 keeps the image, 1 makes it gray: a number f for "
                                          "[-f, f], or both bounds.")
                                       .Between(-1, 1),
                                   ValueRangeArgument(), SeedArgument()}},
          .for_images = true,
          .open = OpenRandomColorDegeneration};
}

}  // namespace cohort
