#include "common/data/images/displace.h"

#include <cmath>
#include <cstdlib>

namespace cohort {
namespace {

// Up to two pixels of an axis with their weights. An index outside of the image is -1.
struct AxisPixels {
  int64_t index[2] = {0, 0};
  float weight[2] = {1, 0};
  int count = 1;
};

int64_t IndexInside(FillMode mode, int64_t index, int64_t size) {
  switch (mode) {
    case FillMode::kConstant:
      return index >= 0 && index < size ? index : -1;
    case FillMode::kNearest:
      return index < 0 ? 0 : (index < size ? index : size - 1);
    case FillMode::kWrap:
      return (index % size + size) % size;
    case FillMode::kReflect:
      break;
  }
  const int64_t in_period = std::abs(index) % (2 * size);
  return in_period < size ? in_period : 2 * size - in_period - 1;
}

AxisPixels PixelsAt(const AffineOptions& options, float at, int64_t size) {
  AxisPixels pixels;
  if (options.interpolation == Interpolation::kNearest) {
    pixels.index[0] = static_cast<int64_t>(std::nearbyint(at));
  } else {
    const float lower = std::floor(at);
    pixels.index[0] = static_cast<int64_t>(lower);
    pixels.index[1] = pixels.index[0] + 1;
    pixels.weight[1] = at - lower;
    pixels.weight[0] = 1 - pixels.weight[1];
    pixels.count = 2;
  }
  for (int i = 0; i < pixels.count; ++i) {
    pixels.index[i] = IndexInside(options.fill_mode, pixels.index[i], size);
  }
  return pixels;
}

}  // namespace

void DisplaceImage(const float* pixels, const ImageShape& shape, const float* down,
                   const float* right, const AffineOptions& options, float* out) {
  for (int64_t row = 0; row < shape.height; ++row) {
    for (int64_t column = 0; column < shape.width; ++column, ++down, ++right) {
      const AxisPixels y = PixelsAt(options, static_cast<float>(row) + *down, shape.height);
      const AxisPixels x = PixelsAt(options, static_cast<float>(column) + *right, shape.width);
      for (int64_t c = 0; c < shape.channels; ++c, ++out) {
        *out = 0;
        for (int i = 0; i < y.count; ++i) {
          for (int j = 0; j < x.count; ++j) {
            const bool inside = y.index[i] >= 0 && x.index[j] >= 0;
            const int64_t pixel = y.index[i] * shape.width + x.index[j];
            const float value = inside ? pixels[pixel * shape.channels + c] : options.fill_value;
            *out += y.weight[i] * x.weight[j] * value;
          }
        }
      }
    }
  }
}

}  // namespace cohort
