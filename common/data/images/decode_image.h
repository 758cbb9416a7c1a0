#ifndef COHORT_COMMON_DATA_IMAGES_DECODE_IMAGE_H_
#define COHORT_COMMON_DATA_IMAGES_DECODE_IMAGE_H_

#include <absl/status/status.h>

#include <cstdint>
#include <string_view>

#include "common/data/images/image.h"

namespace cohort {

// An image with more pixels is refused before it is decoded: a small file can name any size.
inline constexpr uint64_t kMaxImagePixels = 100'000'000;
// The most that a byte of a file can stand for: deflate packs 8 pixels of a black and white PNG by
// a factor of 1032. A JPEG has more bits for each block of 64 pixels.
inline constexpr uint64_t kMaxPixelsPerByte = 8 * 1032;

// Decodes a JPEG or a PNG, which the first bytes tell apart, as tf.io.decode_image does: `channels`
// 1 (grayscale), 3 (RGB) or 4 (RGBA) converts the colors, 16 bits become 8, and the orientation of
// EXIF is ignored. Reuses the memory of `image`. Errors: DataLoss for another format, a damaged or
// truncated image, or one with more than kMaxImagePixels.
absl::Status DecodeImage(std::string_view bytes, int channels, Image* image);

// The two formats.
absl::Status DecodeJpeg(std::string_view bytes, int channels, Image* image);
absl::Status DecodePng(std::string_view bytes, int channels, Image* image);

// Errors: DataLoss for an image that is empty or too large, also for its `bytes` in the file.
absl::Status CheckImageSize(uint64_t height, uint64_t width, size_t bytes);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_IMAGES_DECODE_IMAGE_H_
