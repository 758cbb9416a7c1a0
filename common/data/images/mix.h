#ifndef COHORT_COMMON_DATA_IMAGES_MIX_H_
#define COHORT_COMMON_DATA_IMAGES_MIX_H_

#include <absl/status/statusor.h>

#include <functional>
#include <span>
#include <vector>

#include "common/data/images/image_input.h"

namespace cohort {

// A part of an image: pixels with left <= x < right and top <= y < bottom.
struct ImagePartBox {
  float left = 0, right = 0, top = 0, bottom = 0;
};

// How the records of a batch are mixed.
struct BatchMix {
  std::vector<size_t> partners;     // by record: another one, or itself
  std::vector<float> weights;       // the share of the record; the partner has the rest
  std::vector<ImagePartBox> boxes;  // CutMix: what comes from the partner
};

// A random order of the records.
std::vector<size_t> DrawPartners(RandomDraws* draws, size_t records);

// Adds the partner of each record to it, by the weights. A record has `elements` numbers.
void BlendRecords(const BatchMix& mix, const float* in, size_t elements, float* out);
// Copies the boxes of images from the partners. A pixel has `pixel_bytes`.
void PasteBoxes(const BatchMix& mix, const std::byte* in, const ImageShape& shape,
                size_t pixel_bytes, std::byte* out);

// Draws how a batch is mixed. It must draw the same for images, masks and labels.
using DrawMix = std::function<BatchMix(RandomDraws* draws, size_t records)>;

// The transform of a batch whose records are blended in training: float32. Errors: InvalidArgument
// for integers that stand for classes, which cannot be blended.
absl::StatusOr<RecordTransform> BlendTransform(const FeatureType& type, uint64_t seed,
                                               DrawMix draw);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_IMAGES_MIX_H_
