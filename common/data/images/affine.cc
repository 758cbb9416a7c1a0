#include "common/data/images/affine.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/data/images/crop.h"
#include "common/schema/class_registry.h"

namespace cohort {
namespace {

// Maps a position on an axis of `size` pixels into the image. The steps, with their conversions,
// are those of TensorFlow, so that positions between two pixels round alike.
float Reflect(float at, int64_t size) {
  const auto period = static_cast<float>(2 * size);
  if (at < 0) {
    if (at < period) at = period * std::trunc(-at / period) + at;
    return at < static_cast<float>(-size) ? at + period : -at - 1;
  }
  if (at > static_cast<float>(size - 1)) {
    at -= period * std::trunc(at / period);
    if (at >= static_cast<float>(size)) at = period - at - 1;
  }
  return at;
}

float Wrap(float at, int64_t size) {
  const auto last = static_cast<float>(size - 1);
  if (at < 0) return at + static_cast<float>(size) * (std::trunc(-at / last) + 1);
  if (at > last) return at - static_cast<float>(size) * std::trunc(at / last);
  return at;
}

float MapPosition(FillMode mode, float at, int64_t size) {
  if (mode == FillMode::kConstant) return at;
  if (size == 1) return 0;
  if (mode == FillMode::kReflect) at = Reflect(at, size);
  if (mode == FillMode::kWrap) at = Wrap(at, size);
  return std::clamp(at, 0.0F, static_cast<float>(size - 1));
}

// An image with its surroundings.
class Surrounded {
 public:
  Surrounded(const float* pixels, const ImageShape& shape, std::vector<float> outside)
      : pixels_(pixels), shape_(shape), outside_(std::move(outside)) {}

  // The channels of a pixel. A position that is not a number lies outside.
  const float* At(float y, float x) const {
    const bool inside = y >= 0 && y < static_cast<float>(shape_.height) && x >= 0 &&
                        x < static_cast<float>(shape_.width);
    if (!inside) return outside_.data();
    const auto pixel = static_cast<int64_t>(y) * shape_.width + static_cast<int64_t>(x);
    return pixels_ + pixel * shape_.channels;
  }

  void Bilinear(float y, float x, float* out) const {
    const float top = std::floor(y), left = std::floor(x);
    const float bottom = top + 1, right = left + 1;
    const float* const top_left = At(top, left);
    const float* const top_right = At(top, right);
    const float* const bottom_left = At(bottom, left);
    const float* const bottom_right = At(bottom, right);
    for (int64_t c = 0; c < shape_.channels; ++c) {
      const float above = (right - x) * top_left[c] + (x - left) * top_right[c];
      const float below = (right - x) * bottom_left[c] + (x - left) * bottom_right[c];
      out[c] = (bottom - y) * above + (y - top) * below;
    }
  }

 private:
  const float* const pixels_;
  const ImageShape shape_;
  const std::vector<float> outside_;
};

}  // namespace

FillMode FillModeOf(std::string_view name) {
  if (name == "reflect") return FillMode::kReflect;
  if (name == "wrap") return FillMode::kWrap;
  return name == "constant" ? FillMode::kConstant : FillMode::kNearest;
}

std::vector<Argument> AffineArguments(std::vector<Argument> others) {
  for (Argument argument :
       {String("fill_mode",
               "What lies outside: the reflected image, its other side, `fill_value`, or the "
               "nearest pixel.")
            .Default("reflect")
            .OneOf({"reflect", "wrap", "constant", "nearest"}),
        String("interpolation", "How pixels are computed.")
            .Default("bilinear")
            .OneOf({"bilinear", "nearest"}),
        Float("fill_value", "Of the fill mode constant.").Default(0.0), SeedArgument()}) {
    others.push_back(std::move(argument));
  }
  return others;
}

AffineMatrix RotationMatrix(const ImageShape& shape, float angle) {
  const float x = 0.5F * static_cast<float>(shape.width - 1);
  const float y = 0.5F * static_cast<float>(shape.height - 1);
  const float cos = std::cos(angle), sin = std::sin(angle);
  return {cos, -sin, x - x * cos - y * -sin, sin, cos, y - x * sin - y * cos};
}

AffineMatrix ZoomMatrix(const ImageShape& shape, float height_zoom, float width_zoom) {
  const float x = static_cast<float>(shape.width - 1) / 2 * (1 - width_zoom);
  const float y = static_cast<float>(shape.height - 1) / 2 * (1 - height_zoom);
  return {width_zoom, 0, x, 0, height_zoom, y};
}

AffineMatrix PerspectiveMatrix(const FourPoints& start, const FourPoints& end) {
  constexpr size_t kSize = 8;
  std::array<std::array<double, kSize + 1>, kSize> rows = {};  // the last column: the right side
  for (size_t point = 0; point < 4; ++point) {
    const double x = end[2 * point], y = end[2 * point + 1];
    for (size_t axis = 0; axis < 2; ++axis) {
      const double from = start[2 * point + axis];
      auto& row = rows[2 * point + axis];
      row[3 * axis] = x;
      row[3 * axis + 1] = y;
      row[3 * axis + 2] = 1;
      row[6] = -from * x;
      row[7] = -from * y;
      row[8] = from;
    }
  }
  for (size_t at = 0; at < kSize; ++at) {  // Gauss and Jordan
    const auto largest = std::max_element(
        rows.begin() + static_cast<ptrdiff_t>(at), rows.end(),
        [at](const auto& a, const auto& b) { return std::abs(a[at]) < std::abs(b[at]); });
    if (std::abs((*largest)[at]) < 1e-9) return {1, 0, 0, 0, 1, 0};
    std::swap(rows[at], *largest);
    for (size_t row = 0; row < kSize; ++row) {
      if (row == at) continue;
      const double factor = rows[row][at] / rows[at][at];
      for (size_t column = at; column <= kSize; ++column) {
        rows[row][column] -= factor * rows[at][column];
      }
    }
  }
  AffineMatrix matrix = {};
  for (size_t i = 0; i < kSize; ++i) matrix[i] = static_cast<float>(rows[i][kSize] / rows[i][i]);
  return matrix;
}

void AffineTransform(const float* pixels, const ImageShape& shape, const AffineMatrix& matrix,
                     const AffineOptions& options, float* out) {
  const auto channels = static_cast<size_t>(shape.channels);
  const Surrounded image(pixels, shape, std::vector<float>(channels, options.fill_value));
  for (int64_t row = 0; row < shape.height; ++row) {
    for (int64_t column = 0; column < shape.width; ++column, out += channels) {
      const auto x = static_cast<float>(column), y = static_cast<float>(row);
      const float depth = matrix[6] * x + matrix[7] * y + 1;
      const float at_x = (matrix[0] * x + matrix[1] * y + matrix[2]) / depth;
      const float at_y = (matrix[3] * x + matrix[4] * y + matrix[5]) / depth;
      if (!std::isfinite(at_x) || !std::isfinite(at_y)) {  // the horizon
        std::fill_n(out, channels, options.fill_value);
        continue;
      }
      const float from_x = MapPosition(options.fill_mode, at_x, shape.width);
      const float from_y = MapPosition(options.fill_mode, at_y, shape.height);
      if (options.interpolation == Interpolation::kBilinear) {
        image.Bilinear(from_y, from_x, out);
      } else {
        std::copy_n(image.At(std::round(from_y), std::round(from_x)), channels, out);
      }
    }
  }
}

RecordTransform RandomAffine(const ImageInput& input, const Config& config,
                             std::function<AffineMatrix(RandomDraws* draws)> draw) {
  const AffineOptions options = {FillModeOf(config.String("fill_mode")),
                                 static_cast<float>(config.Float("fill_value")),
                                 InterpolationFor(input, config)};
  return FloatImageTransform(
      input, input.shape.height, input.shape.width,
      [options, shape = input.shape, seed = SeedOf(config), draw = std::move(draw)](
          const RecordContext& context, const float* in, float* out) {
        if (!context.training) {
          std::copy_n(in, shape.elements(), out);
          return;
        }
        RandomDraws draws(context, seed);
        AffineTransform(in, shape, draw(&draws), options, out);
      });
}

}  // namespace cohort
