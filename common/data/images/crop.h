#ifndef COHORT_COMMON_DATA_IMAGES_CROP_H_
#define COHORT_COMMON_DATA_IMAGES_CROP_H_

#include <cstddef>

#include "common/data/images/image_input.h"
#include "common/data/images/resize.h"

namespace cohort {

// The argument `interpolation`, but nearest for masks.
Interpolation InterpolationFor(const ImageInput& input, const Config& config);

// Copies a box of an image whose pixels have `pixel_bytes`.
void CropImage(const std::byte* pixels, const ImageShape& shape, const ImageBox& box,
               size_t pixel_bytes, std::byte* out);

// The transform that crops images to an aspect ratio and resizes them: keras.utils' smart_resize.
// Masks have the nearest pixels, images those of the interpolation bilinear.
RecordTransform SmartResize(const ImageInput& input, int64_t height, int64_t width);
Interpolation SmartInterpolation(const ImageInput& input);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_IMAGES_CROP_H_
