// RandomRotation (keras/src/layers/preprocessing/image_preprocessing/random_rotation.py).
#include <numbers>

#include "common/data/images/affine.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenRandomRotation(const Config& config,
                                                   std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs));
  COHORT_ASSIGN_OR_RETURN(const FactorRange factor, FactorOf(config, "factor"));
  return RandomAffine(input, config, [factor, shape = input.shape](RandomDraws* draws) {
    const auto degrees = static_cast<float>(draws->Uniform(factor.low * 360, factor.high * 360));
    return RotationMatrix(shape, degrees * (std::numbers::pi_v<float> / 180));
  });
}

}  // namespace

TransformClass RandomRotationTransform() {
  return {
      .schema =
          {.name = "RandomRotation",
           .doc = "Rotates each image by a random angle, as Keras' RandomRotation; "
                  "float32. In evaluation: by none.",
           .arguments = AffineArguments(
               {Floats(
                    "factor",
                    "The share of a full turn: a number f for [-f, f], or both bounds. Positive: "
                    "counterclockwise.")
                    .Between(-1, 1)})},
      .for_images = true,
      .open = OpenRandomRotation,
      .open_masks = NearestMasks(OpenRandomRotation)};
}

}  // namespace cohort
