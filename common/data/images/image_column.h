#ifndef COHORT_COMMON_DATA_IMAGES_IMAGE_COLUMN_H_
#define COHORT_COMMON_DATA_IMAGES_IMAGE_COLUMN_H_

#include <absl/status/status.h>

#include <span>
#include <string_view>
#include <vector>

#include "common/data/images/image.h"
#include "common/data/images/resize.h"
#include "common/tensor/tensor.h"

namespace cohort {

class Config;
struct Argument;

// A column of encoded images, which become records of one size, float32 [height, width, channels]
// with values from 0 to 255, as keras.utils.image_dataset_from_directory makes them.
class ImageColumn {
 public:
  // Adds the arguments of a class that has such a column to `others`.
  static std::vector<Argument> Arguments(std::vector<Argument> others);
  // Checks what the arguments must be to each other.
  static absl::Status Check(const Config& config);

  explicit ImageColumn(const Config& config);

  Dims dims() const { return {shape_.height, shape_.width, shape_.channels}; }
  // Decodes a JPEG or PNG and resizes it. Errors: DataLoss.
  absl::Status Decode(std::string_view bytes, std::span<std::byte> record) const;
  // Decodes it without resizing it. Errors: the same.
  absl::Status CheckImage(std::string_view bytes) const;

 private:
  ImageShape shape_;
  Interpolation interpolation_;
  bool crop_to_aspect_ratio_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_IMAGES_IMAGE_COLUMN_H_
