// RandomCrop (keras/src/layers/preprocessing/image_preprocessing/random_crop.py).
#include "common/data/images/crop.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenRandomCrop(const Config& config,
                                               std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs));
  const int64_t height = config.Int("height"), width = config.Int("width");
  if (height > input.shape.height || width > input.shape.width) {
    return SmartResize(input, height, width);
  }
  const ImageBox room = {0, 0, input.shape.height - height, input.shape.width - width};
  return FloatImageTransform(
      input, height, width,
      [=, shape = input.shape, box = BoxOfAspectRatio(input.shape, height, width),
       seed = SeedOf(config), interpolation = SmartInterpolation(input)](
          const RecordContext& context, const float* in, float* out) {
        if (!context.training) {
          ResizeImage(in, shape, box, height, width, interpolation, out);
          return;
        }
        RandomDraws draws(context, seed);
        ImageBox drawn = {0, 0, height, width};
        drawn.top = static_cast<int64_t>(draws.Uniform(0, static_cast<double>(room.height + 1)));
        drawn.left = static_cast<int64_t>(draws.Uniform(0, static_cast<double>(room.width + 1)));
        CropImage(reinterpret_cast<const std::byte*>(in), shape, drawn,
                  static_cast<size_t>(shape.channels) * sizeof(float),
                  reinterpret_cast<std::byte*>(out));
      });
}

}  // namespace

TransformClass RandomCropTransform() {
  return {.schema = {.name = "RandomCrop",
                     .doc = "A random part of each image, as Keras' RandomCrop; float32. In "
                            "evaluation, and for an image that is smaller: the largest part in "
                            "the middle with that aspect ratio, resized.",
                     .arguments = {Int("height", "Of the result, in pixels.").Between(1, 1 << 14),
                                   Int("width", "Likewise.").Between(1, 1 << 14), SeedArgument()}},
          .for_images = true,
          .open = OpenRandomCrop,
          .open_masks = NearestMasks(OpenRandomCrop)};
}

}  // namespace cohort
