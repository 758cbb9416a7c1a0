#ifndef COHORT_COMMON_DATA_IMAGES_BLUR_H_
#define COHORT_COMMON_DATA_IMAGES_BLUR_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/data/images/image.h"

namespace cohort {

// A filter: `rows` x `columns` numbers, both odd.
struct ImageFilter {
  int64_t rows = 1;
  int64_t columns = 1;
  std::vector<float> values;
};

// Convolves each channel of an image with a filter; 0 lies outside of the image.
void FilterImage(const float* pixels, const ImageShape& shape, const ImageFilter& filter,
                 float* out);

// `size` numbers of a normal density around their middle, whose sum is 1.
std::vector<float> GaussianWeights(int64_t size, float sigma);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_IMAGES_BLUR_H_
