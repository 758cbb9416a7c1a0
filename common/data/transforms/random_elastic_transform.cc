// RandomElasticTransform
// (keras/src/layers/preprocessing/image_preprocessing/random_elastic_transform.py, and
// elastic_transform of keras/src/backend/tensorflow/image.py). Keras draws the shifts of both axes
// from one seed, so that they are equal; here each axis has its own.
#include <algorithm>

#include "common/base/status.h"
#include "common/data/images/blur.h"
#include "common/data/images/colors.h"
#include "common/data/images/crop.h"
#include "common/data/images/displace.h"

namespace cohort {
namespace {

struct ElasticOptions {
  FactorRange factor, scale;
  ValueRange range;
  AffineOptions affine;
  uint64_t seed = 0;
};

// Smooth random shifts of all pixels along one axis.
std::vector<float> DrawShifts(RandomDraws* draws, const ImageShape& shape, double strength) {
  const ImageShape field = {shape.height, shape.width, 1};
  const auto sigma = static_cast<float>(static_cast<double>(std::min(shape.height, shape.width)) *
                                        0.05 * strength);
  const auto alpha =
      static_cast<float>(static_cast<double>(std::max(shape.height, shape.width)) * 0.1 * strength);
  std::vector<float> shifts(field.elements()), blurred(field.elements());
  for (float& shift : shifts) shift = static_cast<float>(draws->Normal()) * sigma;
  const int64_t size = (6 * static_cast<int64_t>(sigma)) | 1;
  const std::vector<float> weights = GaussianWeights(size, sigma);
  FilterImage(shifts.data(), field, {1, size, weights}, blurred.data());
  FilterImage(blurred.data(), field, {size, 1, weights}, shifts.data());
  for (float& shift : shifts) shift *= alpha;
  return shifts;
}

absl::StatusOr<RecordTransform> OpenElastic(const Config& config,
                                            std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs));
  ElasticOptions options;
  COHORT_ASSIGN_OR_RETURN(options.factor, PositiveFactorOf(config, "factor"));
  COHORT_ASSIGN_OR_RETURN(options.scale, PositiveFactorOf(config, "scale"));
  COHORT_ASSIGN_OR_RETURN(options.range, ValueRangeOf(config));
  options.affine = {FillModeOf(config.String("fill_mode")),
                    static_cast<float>(config.Float("fill_value")),
                    InterpolationFor(input, config)};
  options.seed = SeedOf(config);
  return FloatImageTransform(
      input, input.shape.height, input.shape.width,
      [options, shape = input.shape, are_masks = input.are_masks](const RecordContext& context,
                                                                  const float* in, float* out) {
        std::copy_n(in, shape.elements(), out);
        if (!context.training) return;
        RandomDraws draws(context, options.seed);
        const double share = draws.Uniform(options.factor.low, options.factor.high);
        const double strength = draws.Uniform(options.scale.low, options.scale.high);
        if (draws.Uniform(0, 1) < share && strength > 0) {
          const std::vector<float> down = DrawShifts(&draws, shape, strength);
          const std::vector<float> right = DrawShifts(&draws, shape, strength);
          DisplaceImage(in, shape, down.data(), right.data(), options.affine, out);
        }
        if (are_masks) return;  // the range is that of colors
        for (float& x : std::span(out, shape.elements())) x = options.range.Clip(x);
      });
}

}  // namespace

TransformClass RandomElasticTransformTransform() {
  return {
      .schema = {.name = "RandomElasticTransform",
                 .doc = "Moves the pixels of some images by smooth random shifts, as Keras' "
                        "RandomElasticTransform; float32. In evaluation: of none.",
                 .arguments = {Floats("factor",
                                      "Share of the images: a number f for [0, f], or both bounds.")
                                   .Default(std::vector<double>{1.0})
                                   .Between(0, 1),
                               Floats("scale", "How far: a number f for [0, f], or both bounds.")
                                   .Default(std::vector<double>{1.0})
                                   .Between(0, 1),
                               String("interpolation", "How pixels are computed.")
                                   .Default("bilinear")
                                   .OneOf({"bilinear", "nearest"}),
                               String("fill_mode", "What lies outside, as for RandomRotation.")
                                   .Default("reflect")
                                   .OneOf({"reflect", "wrap", "constant", "nearest"}),
                               Float("fill_value", "Of the fill mode constant.").Default(0.0),
                               ValueRangeArgument(), SeedArgument()}},
      .for_images = true,
      .open = OpenElastic,
      .open_masks = NearestMasks(OpenElastic)};
}

}  // namespace cohort
