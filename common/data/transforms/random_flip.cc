// RandomFlip (keras/src/layers/preprocessing/image_preprocessing/random_flip.py).
#include <cstring>

#include "common/data/images/image_input.h"

namespace cohort {
namespace {

void FlipImage(const std::byte* pixels, const ImageShape& shape, bool horizontal, bool vertical,
               size_t pixel_bytes, std::byte* out) {
  const size_t row_bytes = static_cast<size_t>(shape.width) * pixel_bytes;
  for (int64_t row = 0; row < shape.height; ++row, out += row_bytes) {
    const int64_t from_row = vertical ? shape.height - 1 - row : row;
    const std::byte* from = pixels + static_cast<size_t>(from_row) * row_bytes;
    if (!horizontal) {
      std::memcpy(out, from, row_bytes);
      continue;
    }
    for (size_t at = 0; at < row_bytes; at += pixel_bytes) {
      std::memcpy(out + at, from + row_bytes - pixel_bytes - at, pixel_bytes);
    }
  }
}

absl::StatusOr<RecordTransform> OpenRandomFlip(const Config& config,
                                               std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs));
  const std::string& mode = config.String("mode");
  return PixelTransform(
      input, input.shape.height, input.shape.width,
      [shape = input.shape, horizontal = mode != "vertical", vertical = mode != "horizontal",
       seed = SeedOf(config)](const RecordContext& context, const std::byte* in, size_t pixel_bytes,
                              std::byte* out) {
        // One draw for both directions, as in Keras.
        const bool flips = context.training && RandomDraws(context, seed).Uniform(0, 1) <= 0.5;
        FlipImage(in, shape, flips && horizontal, flips && vertical, pixel_bytes, out);
      });
}

}  // namespace

TransformClass RandomFlipTransform() {
  return {
      .schema = {.name = "RandomFlip",
                 .doc = "Flips half of the images, as Keras' RandomFlip. In evaluation: none.",
                 .arguments = {String("mode",
                                      "The direction. Both: an image is flipped in both "
                                      "directions or not at all.")
                                   .Default("horizontal_and_vertical")
                                   .OneOf({"horizontal", "vertical", "horizontal_and_vertical"}),
                               SeedArgument()}},
      .for_images = true,
      .open = OpenRandomFlip,
      .open_masks = NearestMasks(OpenRandomFlip)};
}

}  // namespace cohort
