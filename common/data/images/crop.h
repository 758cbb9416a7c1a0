#ifndef COHORT_COMMON_DATA_IMAGES_CROP_H_
#define COHORT_COMMON_DATA_IMAGES_CROP_H_

#include <cstddef>

#include "common/data/images/image_input.h"
#include "common/data/images/resize.h"

namespace cohort {

// Copies a box of an image whose pixels have `pixel_bytes`.
void CropImage(const std::byte* pixels, const ImageShape& shape, const ImageBox& box,
               size_t pixel_bytes, std::byte* out);

// The transform that crops images to an aspect ratio and resizes them: keras.utils' smart_resize.
RecordTransform SmartResize(const ImageInput& input, int64_t height, int64_t width);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_IMAGES_CROP_H_
