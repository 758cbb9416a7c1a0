// MixUp (keras/src/layers/preprocessing/image_preprocessing/mix_up.py).
#include "common/base/status.h"
#include "common/data/images/mix.h"

namespace cohort {
namespace {

DrawMix DrawMixUp(const Config& config) {
  return [alpha = config.Float("alpha")](RandomDraws* draws, size_t records) {
    BatchMix mix;
    mix.partners = DrawPartners(draws, records);
    for (size_t i = 0; i < records; ++i) {
      mix.weights.push_back(static_cast<float>(draws->Dirichlet(2, alpha)[0]));
    }
    return mix;
  };
}

absl::StatusOr<RecordTransform> OpenMixUp(const Config& config,
                                          std::span<const FeatureType> inputs) {
  COHORT_RETURN_IF_ERROR(ImageInputOf(inputs[0]).status());
  return BlendTransform(inputs[0], SeedOf(config), DrawMixUp(config));
}

absl::StatusOr<RecordTransform> OpenMixUpOfMasks(const Config& config,
                                                 std::span<const FeatureType> inputs) {
  COHORT_RETURN_IF_ERROR(CheckMasks(inputs));
  if (!IsFloating(inputs[0].dtype)) {
    return InvalidArgument(
        "the masks \"{}\" have integers, and the classes of two images can be blended only as "
        "one-hot vectors of floats: use CutMix",
        inputs[0].name);
  }
  return BlendTransform(inputs[0], SeedOf(config), DrawMixUp(config));
}

absl::StatusOr<RecordTransform> OpenMixUpOfLabels(const Config& config,
                                                  std::span<const FeatureType> inputs) {
  return BlendTransform(inputs[0], SeedOf(config), DrawMixUp(config));
}

}  // namespace

TransformClass MixUpTransform() {
  return {.schema = {.name = "MixUp",
                     .doc = "Blends each image, and its label, with another one of the batch, as "
                            "Keras' MixUp; float32. In evaluation: none.",
                     .arguments = {Float("alpha",
                                         "The weights have the distribution Beta(alpha, alpha).")
                                       .Default(0.2)
                                       .Between(1e-6, 1e6),
                                   SeedArgument()}},
          .for_images = true,
          .open = OpenMixUp,
          .open_masks = OpenMixUpOfMasks,
          .open_labels = OpenMixUpOfLabels};
}

}  // namespace cohort
