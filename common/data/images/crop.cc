#include "common/data/images/crop.h"

#include <cstring>

namespace cohort {

void CropImage(const std::byte* pixels, const ImageShape& shape, const ImageBox& box,
               size_t pixel_bytes, std::byte* out) {
  const size_t row_bytes = static_cast<size_t>(box.width) * pixel_bytes;
  for (int64_t row = 0; row < box.height; ++row, out += row_bytes) {
    const auto first = static_cast<size_t>((box.top + row) * shape.width + box.left);
    std::memcpy(out, pixels + first * pixel_bytes, row_bytes);
  }
}

Interpolation InterpolationFor(const ImageInput& input, const Config& config) {
  return input.are_masks ? Interpolation::kNearest
                         : InterpolationOf(config.String("interpolation"));
}

Interpolation SmartInterpolation(const ImageInput& input) {
  return input.are_masks ? Interpolation::kNearest : Interpolation::kBilinear;
}

RecordTransform SmartResize(const ImageInput& input, int64_t height, int64_t width) {
  return FloatImageTransform(
      input, height, width,
      [=, shape = input.shape, box = BoxOfAspectRatio(input.shape, height, width),
       interpolation = SmartInterpolation(input)](const RecordContext&, const float* in,
                                                  float* out) {
        ResizeImage(in, shape, box, height, width, interpolation, out);
      });
}

}  // namespace cohort
