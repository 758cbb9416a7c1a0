// RandAugment (keras/src/layers/preprocessing/image_preprocessing/rand_augment.py). Keras chooses
// the augmentations once for a batch, this transform for each record, so that a record does not
// depend on its batch.
#include <algorithm>

#include "common/base/status.h"
#include "common/data/images/augmentations.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenRandAugment(const Config& config,
                                                std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs));
  COHORT_ASSIGN_OR_RETURN(const FactorRange factor, PositiveFactorOf(config, "factor"));
  COHORT_ASSIGN_OR_RETURN(const ValueRange range, ValueRangeOf(config));
  const Augmentations augmentations = {factor, range, config.String("interpolation")};
  COHORT_ASSIGN_OR_RETURN(
      std::vector<ImagePart> parts,
      augmentations.Open({"RandomShear", "RandomTranslation", "RandomRotation", "RandomBrightness",
                          "RandomColorDegeneration", "RandomContrast", "RandomSharpness",
                          "RandomPosterization", "Solarization", "AutoContrast", "Equalization"},
                         input));
  return ComposedImageTransform(
      input, input.shape.height, input.shape.width,
      [parts = std::move(parts), seed = SeedOf(config), size = input.shape.elements(),
       ops = config.Int("num_ops")](const RecordContext& context, const float* in, float* out) {
        std::copy_n(in, size, out);
        if (!context.training) return absl::OkStatus();
        RandomDraws draws(context, seed);
        std::vector<float> before;
        for (int64_t i = 0; i < ops; ++i) {
          const double chosen = draws.Uniform(0, static_cast<double>(parts.size()));
          before.assign(out, out + size);
          COHORT_RETURN_IF_ERROR(parts[static_cast<size_t>(chosen)](
              PartContext(context, seed, static_cast<uint64_t>(i)), before.data(), out));
        }
        return absl::OkStatus();
      });
}

}  // namespace

TransformClass RandAugmentTransform() {
  return {.schema = {.name = "RandAugment",
                     .doc = "Applies random augmentations, one after another, as Keras' "
                            "RandAugment: shear, translation, rotation, brightness, color "
                            "degeneration, contrast, sharpness, posterization, solarization, "
                            "automatic contrast, equalization. Each image has its own; float32, "
                            "with 3 channels. In evaluation: none.",
                     .arguments = {ValueRangeArgument(),
                                   Int("num_ops", "How many.").Default(2).Between(0, 100),
                                   Floats("factor",
                                          "How strong they are: a number f for [0, f], or both "
                                          "bounds.")
                                       .Default(std::vector<double>{0.5})
                                       .Between(0, 1),
                                   String("interpolation", "How moved pixels are computed.")
                                       .Default("bilinear")
                                       .OneOf({"bilinear", "nearest"}),
                                   SeedArgument()}},
          .for_images = true,
          .open = OpenRandAugment,
          .open_masks = NearestMasks(OpenRandAugment)};
}

}  // namespace cohort
