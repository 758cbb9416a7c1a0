#ifndef COHORT_COMMON_DATA_IMAGES_AUGMENTATIONS_H_
#define COHORT_COMMON_DATA_IMAGES_AUGMENTATIONS_H_

#include <absl/status/statusor.h>

#include <string_view>
#include <vector>

#include "common/data/images/colors.h"
#include "common/data/images/image_input.h"

namespace cohort {

// A transform of images that is a part of another one. Images are float32 and keep their size.
using ImagePart = TryComputeImage;

// Opens one. For masks: what it does to them.
absl::StatusOr<ImagePart> OpenImagePart(const v1::ClassConfig& config, const ImageInput& images);

// The context of a part: each number has random numbers of its own.
RecordContext PartContext(const RecordContext& context, uint64_t seed, uint64_t number);

// The augmentations among which RandAugment and AugMix choose.
struct Augmentations {
  FactorRange factor;  // how strong they are
  ValueRange range;
  std::string_view interpolation;

  // In this order. Errors: InvalidArgument for images that are not red, green and blue.
  absl::StatusOr<std::vector<ImagePart>> Open(std::vector<std::string_view> names,
                                              const ImageInput& images) const;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_IMAGES_AUGMENTATIONS_H_
