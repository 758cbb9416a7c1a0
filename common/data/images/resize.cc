#include "common/data/images/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace cohort {
namespace {

// An output position lies between two input positions: `low` + `weight` * (`high` - `low`).
struct Tap {
  int64_t low = 0;
  int64_t high = 0;
  float weight = 0;
};

// tensorflow/core/kernels/image/resize_bilinear_op.cc and resize_nearest_neighbor_op.cc with
// half_pixel_centers.
void FindTaps(int64_t in, int64_t out, Interpolation interpolation, std::vector<Tap>* taps) {
  const float scale = static_cast<float>(in) / static_cast<float>(out);
  taps->resize(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) {
    const float center = (static_cast<float>(i) + 0.5F) * scale;
    Tap& tap = (*taps)[static_cast<size_t>(i)];
    if (interpolation == Interpolation::kNearest) {
      tap.low = tap.high = std::min(static_cast<int64_t>(std::floor(center)), in - 1);
      tap.weight = 0;
      continue;
    }
    const float at = center - 0.5F;
    const float floor = std::floor(at);
    tap.low = std::max<int64_t>(static_cast<int64_t>(floor), 0);
    tap.high = std::min(static_cast<int64_t>(std::ceil(at)), in - 1);
    tap.weight = at - floor;
  }
}

// Interpolates along a row.
template <int64_t kChannels, typename T>
void ResizeRow(const T* __restrict row, const std::vector<Tap>& taps, int64_t channels,
               float* __restrict out) {
  const int64_t size = kChannels > 0 ? kChannels : channels;
  for (const Tap& tap : taps) {
    const T* low = row + tap.low * size;
    const T* high = row + tap.high * size;
    for (int64_t c = 0; c < size; ++c) {
      const auto from = static_cast<float>(low[c]);
      out[c] = from + (static_cast<float>(high[c]) - from) * tap.weight;
    }
    out += size;
  }
}

template <typename T>
void ResizeOneRow(const T* row, const std::vector<Tap>& taps, int64_t channels, float* out) {
  switch (channels) {
    case 1:
      return ResizeRow<1>(row, taps, channels, out);
    case 3:
      return ResizeRow<3>(row, taps, channels, out);
    case 4:
      return ResizeRow<4>(row, taps, channels, out);
    default:
      return ResizeRow<0>(row, taps, channels, out);
  }
}

// The memory of a thread, so that an image allocates nothing.
struct Scratch {
  std::vector<Tap> rows;
  std::vector<Tap> columns;
  std::vector<float> low;  // an input row, resized
  std::vector<float> high;
};

template <typename T>
void Resize(const T* pixels, const ImageShape& shape, const ImageBox& box, int64_t height,
            int64_t width, Interpolation interpolation, float* __restrict out) {
  thread_local Scratch scratch;
  FindTaps(box.height, height, interpolation, &scratch.rows);
  FindTaps(box.width, width, interpolation, &scratch.columns);
  const auto size = static_cast<size_t>(width * shape.channels);
  scratch.low.resize(size);
  scratch.high.resize(size);
  const auto row = [&](int64_t y) {
    return pixels + ((box.top + y) * shape.width + box.left) * shape.channels;
  };
  // The input rows in the scratch. Neighboring output rows need the same ones.
  int64_t low_row = -1, high_row = -1;
  for (const Tap& tap : scratch.rows) {
    if (tap.weight == 0 || tap.low == tap.high) {
      ResizeOneRow(row(tap.low), scratch.columns, shape.channels, out);
      out += size;
      continue;
    }
    if (tap.low == high_row) {
      std::swap(scratch.low, scratch.high);
      std::swap(low_row, high_row);
    }
    if (tap.low != low_row) {
      ResizeOneRow(row(tap.low), scratch.columns, shape.channels, scratch.low.data());
      low_row = tap.low;
    }
    if (tap.high != high_row) {
      ResizeOneRow(row(tap.high), scratch.columns, shape.channels, scratch.high.data());
      high_row = tap.high;
    }
    const float* __restrict low = scratch.low.data();
    const float* __restrict high = scratch.high.data();
    for (size_t i = 0; i < size; ++i) out[i] = low[i] + (high[i] - low[i]) * tap.weight;
    out += size;
  }
}

}  // namespace

Interpolation InterpolationOf(std::string_view name) {
  return name == "nearest" ? Interpolation::kNearest : Interpolation::kBilinear;
}

ImageBox WholeImage(const ImageShape& shape) { return {0, 0, shape.height, shape.width}; }

ImageBox BoxOfAspectRatio(const ImageShape& shape, int64_t height, int64_t width) {
  const auto share = [](int64_t size, int64_t numerator, int64_t denominator) {
    return static_cast<int64_t>(static_cast<float>(size * numerator) /
                                static_cast<float>(denominator));
  };
  ImageBox box;
  box.height = std::max<int64_t>(std::min(shape.height, share(shape.width, height, width)), 1);
  box.width = std::max<int64_t>(std::min(shape.width, share(shape.height, width, height)), 1);
  box.top = (shape.height - box.height) / 2;
  box.left = (shape.width - box.width) / 2;
  return box;
}

void ResizeImage(const uint8_t* pixels, const ImageShape& shape, const ImageBox& box,
                 int64_t height, int64_t width, Interpolation interpolation, float* out) {
  Resize(pixels, shape, box, height, width, interpolation, out);
}

void ResizeImage(const float* pixels, const ImageShape& shape, const ImageBox& box, int64_t height,
                 int64_t width, Interpolation interpolation, float* out) {
  Resize(pixels, shape, box, height, width, interpolation, out);
}

}  // namespace cohort
