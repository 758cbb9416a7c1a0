#ifndef COHORT_COMMON_DATA_IMAGES_RESIZE_H_
#define COHORT_COMMON_DATA_IMAGES_RESIZE_H_

#include <cstdint>
#include <string_view>

#include "common/data/images/image.h"

namespace cohort {

enum class Interpolation { kBilinear, kNearest };
// "bilinear" or "nearest", which a schema has checked.
Interpolation InterpolationOf(std::string_view name);

// A rectangle of an image, in pixels.
struct ImageBox {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;
};
// The whole image.
ImageBox WholeImage(const ImageShape& shape);
// The largest box in the middle of an image that has the aspect ratio of `height` x `width`, as
// crop_to_aspect_ratio of Keras' Resizing.
ImageBox BoxOfAspectRatio(const ImageShape& shape, int64_t height, int64_t width);

// Resizes a box of an image to [height, width, channels] as tf.image.resize does without
// antialiasing: pixels have their centers at .5, and positions are computed in float32. `out` does
// not overlap `pixels`.
void ResizeImage(const uint8_t* pixels, const ImageShape& shape, const ImageBox& box,
                 int64_t height, int64_t width, Interpolation interpolation, float* out);
void ResizeImage(const float* pixels, const ImageShape& shape, const ImageBox& box, int64_t height,
                 int64_t width, Interpolation interpolation, float* out);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_IMAGES_RESIZE_H_
