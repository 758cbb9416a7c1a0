#include "common/data/images/colors.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/status.h"
#include "common/schema/class_registry.h"

namespace cohort {

Argument ValueRangeArgument() {
  return Floats("value_range", "The numbers of black and white.")
      .Default(std::vector<double>{0.0, 255.0});
}

absl::StatusOr<ValueRange> ValueRangeOf(const Config& config) {
  const std::vector<double> values = config.Floats("value_range");
  if (values.size() != 2 || values[0] == values[1]) {
    return InvalidArgument("value_range must be two numbers that differ, such as [0, 255]");
  }
  return ValueRange{static_cast<float>(std::min(values[0], values[1])),
                    static_cast<float>(std::max(values[0], values[1]))};
}

float MapRange(float x, const ValueRange& from, const ValueRange& to) {
  if (from.low == to.low && from.high == to.high) return x;
  return (x - from.low) / (from.high - from.low) * (to.high - to.low) + to.low;
}

absl::StatusOr<FactorRange> PositiveFactorOf(const Config& config, std::string_view name) {
  const bool single = config.Floats(name).size() == 1;
  COHORT_ASSIGN_OR_RETURN(FactorRange factor, FactorOf(config, name));
  if (single) factor.low = 0;
  return factor;
}

RecordTransform RandomColors(const ImageInput& input, const Config& config, ChangeColors change) {
  return FloatImageTransform(
      input, input.shape.height, input.shape.width,
      [size = input.shape.elements(), seed = SeedOf(config), change = std::move(change)](
          const RecordContext& context, const float* in, float* out) {
        std::copy_n(in, size, out);
        if (!context.training) return;
        RandomDraws draws(context, seed);
        change(&draws, {out, size});
      });
}

absl::Status CheckRgb(const ImageInput& input) {
  if (input.shape.channels == 3) return absl::OkStatus();
  return InvalidArgument(
      "the images have {} channels, and this transform needs red, green and blue",
      input.shape.channels);
}

void RgbToHsv(float* pixel) {
  const float r = pixel[0], g = pixel[1], b = pixel[2];
  const float value = std::max({r, g, b});
  const float range = value - std::min({r, g, b});
  const float saturation = value > 0 ? range / value : 0;
  float hue = 0;
  if (range > 0) {
    const float norm = 1.0F / (6.0F * range);
    if (r == value) {
      hue = norm * (g - b);
    } else if (g == value) {
      hue = norm * (b - r) + 2.0F / 6.0F;
    } else {
      hue = norm * (r - g) + 4.0F / 6.0F;
    }
    if (hue < 0) hue += 1;
  }
  pixel[0] = hue;
  pixel[1] = saturation;
  pixel[2] = value;
}

void HsvToRgb(float* pixel) {
  const float hue = pixel[0] * 6, saturation = pixel[1], value = pixel[2];
  const auto part = [&](float share) {
    return (1 - saturation + saturation * std::clamp(share, 0.0F, 1.0F)) * value;
  };
  pixel[0] = part(std::abs(hue - 3) - 1);
  pixel[1] = part(2 - std::abs(hue - 2));
  pixel[2] = part(2 - std::abs(hue - 4));
}

void ChangeHsv(std::span<float> pixels, absl::FunctionRef<void(float* hsv)> change) {
  for (size_t i = 0; i + 2 < pixels.size(); i += 3) {
    float* const pixel = &pixels[i];
    RgbToHsv(pixel);
    change(pixel);
    HsvToRgb(pixel);
  }
}

}  // namespace cohort
