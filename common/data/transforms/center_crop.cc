// CenterCrop (keras/src/layers/preprocessing/image_preprocessing/center_crop.py).
#include "common/data/images/crop.h"
#include "common/data/images/image_input.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenCenterCrop(const Config& config,
                                               std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs));
  const int64_t height = config.Int("height"), width = config.Int("width");
  if (height > input.shape.height || width > input.shape.width) {
    return SmartResize(input, height, width);
  }
  const ImageBox box = {(input.shape.height - height) / 2, (input.shape.width - width) / 2, height,
                        width};
  return PixelTransform(
      input, height, width,
      [box, shape = input.shape](const RecordContext&, const std::byte* in, size_t pixel_bytes,
                                 std::byte* out) { CropImage(in, shape, box, pixel_bytes, out); });
}

}  // namespace

TransformClass CenterCropTransform() {
  return {.schema = {.name = "CenterCrop",
                     .doc = "The middle of images, as Keras' CenterCrop. An image that is smaller "
                            "is cropped to the aspect ratio and resized (float32).",
                     .arguments = {Int("height", "Of the result, in pixels.").Between(1, 1 << 14),
                                   Int("width", "Likewise.").Between(1, 1 << 14)}},
          .for_images = true,
          .open = OpenCenterCrop,
          .open_masks = NearestMasks(OpenCenterCrop)};
}

}  // namespace cohort
