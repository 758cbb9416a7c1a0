#ifndef COHORT_COMMON_DATA_IMAGES_IMAGE_H_
#define COHORT_COMMON_DATA_IMAGES_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cohort {

// The height and width of an image in pixels, and its numbers per pixel.
struct ImageShape {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;

  size_t elements() const { return static_cast<size_t>(height * width * channels); }
  bool operator==(const ImageShape&) const = default;
};

// A decoded image: rows from the top, pixels from the left, the channels of a pixel side by side.
struct Image {
  ImageShape shape;
  std::vector<uint8_t> pixels;  // may be longer: decoders reuse the memory
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_IMAGES_IMAGE_H_
