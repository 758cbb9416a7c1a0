// RandomRotation (keras/src/layers/preprocessing/image_preprocessing/random_rotation.py).
#include <algorithm>
#include <numbers>

#include "common/data/images/affine.h"
#include "common/data/images/image_input.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenRandomRotation(const Config& config,
                                                   std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs[0]));
  COHORT_ASSIGN_OR_RETURN(const FactorRange factor, FactorOf(config, "factor"));
  return FloatImageTransform(
      input, input.shape.height, input.shape.width,
      [factor, shape = input.shape, options = AffineOptionsOf(config), seed = SeedOf(config)](
          const RecordContext& context, const float* in, float* out) {
        if (!context.training) {
          std::copy_n(in, shape.elements(), out);
          return;
        }
        const auto degrees = static_cast<float>(
            RandomDraws(context, seed).Uniform(factor.low * 360, factor.high * 360));
        const float angle = degrees * (std::numbers::pi_v<float> / 180);
        AffineTransform(in, shape, RotationMatrix(shape, angle), options, out);
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
      .open = OpenRandomRotation};
}

}  // namespace cohort
