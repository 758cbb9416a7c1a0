// RandomPerspective (keras/src/layers/preprocessing/image_preprocessing/random_perspective.py).
#include <algorithm>

#include "common/base/status.h"
#include "common/data/images/affine.h"
#include "common/data/images/colors.h"
#include "common/data/images/crop.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenRandomPerspective(const Config& config,
                                                      std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs));
  COHORT_ASSIGN_OR_RETURN(const FactorRange factor, PositiveFactorOf(config, "factor"));
  const AffineOptions options = {FillMode::kConstant,
                                 static_cast<float>(config.Float("fill_value")),
                                 InterpolationFor(input, config)};
  return FloatImageTransform(
      input, input.shape.height, input.shape.width,
      [=, shape = input.shape, seed = SeedOf(config), scale = config.Float("scale")](
          const RecordContext& context, const float* in, float* out) {
        RandomDraws draws(context, seed);
        const bool changes =
            context.training && draws.Uniform(0, 1) < draws.Uniform(factor.low, factor.high);
        if (!changes) {
          std::copy_n(in, shape.elements(), out);
          return;
        }
        const auto right = static_cast<double>(shape.width - 1);
        const auto bottom = static_cast<double>(shape.height - 1);
        const FourPoints corners = {0, 0, right, 0, 0, bottom, right, bottom};
        FourPoints moved = corners;
        for (double& at : moved) at += at * draws.Uniform(-0.5 * scale, 0.5 * scale);
        AffineTransform(in, shape, PerspectiveMatrix(corners, moved), options, out);
      });
}

}  // namespace

TransformClass RandomPerspectiveTransform() {
  return {.schema = {.name = "RandomPerspective",
                     .doc = "Shows some of the images from a random side, as Keras' "
                            "RandomPerspective; float32. In evaluation: none.",
                     .arguments =
                         {Floats("factor",
                                 "Share of the images: a number f for [0, f], or both bounds.")
                              .Default(std::vector<double>{1.0})
                              .Between(0, 1),
                          Float("scale", "How far the corners move: up to half of their position.")
                              .Default(1.0)
                              .Between(0, 1),
                          String("interpolation", "How pixels are computed.")
                              .Default("bilinear")
                              .OneOf({"bilinear", "nearest"}),
                          Float("fill_value", "What lies outside.").Default(0.0), SeedArgument()}},
          .for_images = true,
          .open = OpenRandomPerspective,
          .open_masks = NearestMasks(OpenRandomPerspective)};
}

}  // namespace cohort
