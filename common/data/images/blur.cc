#include "common/data/images/blur.h"

#include <algorithm>
#include <cmath>

namespace cohort {

void FilterImage(const float* pixels, const ImageShape& shape, const ImageFilter& filter,
                 float* out) {
  std::fill_n(out, shape.elements(), 0.0F);
  for (int64_t row = 0; row < shape.height; ++row) {
    for (int64_t i = 0; i < filter.rows; ++i) {
      const int64_t from_row = row + i - filter.rows / 2;
      if (from_row < 0 || from_row >= shape.height) continue;
      for (int64_t j = 0; j < filter.columns; ++j) {
        const int64_t shift = j - filter.columns / 2;
        const int64_t first = std::max<int64_t>(0, -shift);
        const int64_t end = std::min(shape.width, shape.width - shift);
        const float weight = filter.values[static_cast<size_t>(i * filter.columns + j)];
        const float* const from = pixels + (from_row * shape.width + shift) * shape.channels;
        float* const to = out + row * shape.width * shape.channels;
        for (int64_t at = first * shape.channels; at < end * shape.channels; ++at) {
          to[at] += weight * from[at];
        }
      }
    }
  }
}

std::vector<float> GaussianWeights(int64_t size, float sigma) {
  std::vector<float> weights;
  float sum = 0;
  for (int64_t i = 0; i < size; ++i) {
    const float x = static_cast<float>(i) - static_cast<float>(size - 1) / 2;
    weights.push_back(std::exp(-0.5F * (x / sigma) * (x / sigma)));
    sum += weights.back();
  }
  for (float& weight : weights) weight /= sum;
  return weights;
}

}  // namespace cohort
