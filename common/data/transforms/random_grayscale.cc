// RandomGrayscale (keras/src/layers/preprocessing/image_preprocessing/random_grayscale.py).
#include "common/base/status.h"
#include "common/data/images/colors.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenRandomGrayscale(const Config& config,
                                                    std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs[0]));
  COHORT_RETURN_IF_ERROR(CheckRgb(input));
  const double share = config.Float("factor");
  return RandomColors(input, config, [share](RandomDraws* draws, std::span<float> pixels) {
    if (draws->Uniform(0, 1) >= share) return;
    for (size_t i = 0; i < pixels.size(); i += 3) {
      pixels[i] = pixels[i + 1] = pixels[i + 2] = GrayOf(&pixels[i]);
    }
  });
}

}  // namespace

TransformClass RandomGrayscaleTransform() {
  return {
      .schema = {.name = "RandomGrayscale",
                 .doc = "Makes some of the images gray, as Keras' RandomGrayscale; float32, with "
                        "3 channels. In evaluation: none.",
                 .arguments = {Float("factor", "Share of the images.").Default(0.5).Between(0, 1),
                               SeedArgument()}},
      .for_images = true,
      .open = OpenRandomGrayscale};
}

}  // namespace cohort
