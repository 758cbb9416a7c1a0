// RandomShear (keras/src/layers/preprocessing/image_preprocessing/random_shear.py).
#include "common/base/status.h"
#include "common/data/images/affine.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenRandomShear(const Config& config,
                                                std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs));
  COHORT_ASSIGN_OR_RETURN(const FactorRange x, FactorOf(config, "x_factor"));
  COHORT_ASSIGN_OR_RETURN(const FactorRange y, FactorOf(config, "y_factor"));
  return RandomAffine(input, config, [x, y](RandomDraws* draws) {
    const double sign = draws->Uniform(0, 1) > 0.5 ? -1 : 1;
    const auto down = static_cast<float>(sign * draws->Uniform(y.low, y.high));
    const auto right = static_cast<float>(sign * draws->Uniform(x.low, x.high));
    return AffineMatrix{1, right, 0, down, 1, 0};
  });
}

Argument ShearFactor(std::string_view name, std::string_view doc) {
  return Floats(name, doc).Default(std::vector<double>{0.0}).Between(-1, 1);
}

}  // namespace

TransformClass RandomShearTransform() {
  return {.schema = {.name = "RandomShear",
                     .doc = "Shears each image by a random amount, as Keras' RandomShear; float32. "
                            "In evaluation: by none.",
                     .arguments = AffineArguments(
                         {ShearFactor("x_factor",
                                      "Pixels to the side per row: a number f for [-f, f], or both "
                                      "bounds, which a random sign turns around."),
                          ShearFactor("y_factor", "Pixels down per column: likewise.")})},
          .for_images = true,
          .open = OpenRandomShear,
          .open_masks = NearestMasks(OpenRandomShear)};
}

}  // namespace cohort
