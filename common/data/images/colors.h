#ifndef COHORT_COMMON_DATA_IMAGES_COLORS_H_
#define COHORT_COMMON_DATA_IMAGES_COLORS_H_

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "common/data/images/image_input.h"

namespace cohort {

class Config;
struct Argument;

// What Keras' layers that change colors share.

// The argument `value_range`, and its value: the numbers of black and white.
Argument ValueRangeArgument();
struct ValueRange {
  float low = 0;
  float high = 255;
  float Clip(float x) const { return x < low ? low : (x > high ? high : x); }
};
// Errors: InvalidArgument unless it has two numbers that differ.
absl::StatusOr<ValueRange> ValueRangeOf(const Config& config);
// Maps x from one range to another; x itself if they are equal.
float MapRange(float x, const ValueRange& from, const ValueRange& to);

// A factor whose lower bound is 0 if it is a single number f: [0, f].
absl::StatusOr<FactorRange> PositiveFactorOf(const Config& config, std::string_view name);

// A transform that computes new colors in training. `change` gets the pixels, which it changes.
using ChangeColors = std::function<void(RandomDraws* draws, std::span<float> pixels)>;
RecordTransform RandomColors(const ImageInput& input, const Config& config, ChangeColors change);

// Errors: InvalidArgument if the images are not red, green and blue.
absl::Status CheckRgb(const ImageInput& input);

// The gray of a pixel, as tf.image.rgb_to_grayscale.
inline float GrayOf(const float* pixel) {
  return 0.2989F * pixel[0] + 0.5870F * pixel[1] + 0.1140F * pixel[2];
}

// One pixel, as tf.image.rgb_to_hsv and hsv_to_rgb compute it.
void RgbToHsv(float* pixel);
void HsvToRgb(float* pixel);

// Changes all pixels as hue, saturation and value, the three numbers that `change` gets.
void ChangeHsv(std::span<float> pixels, absl::FunctionRef<void(float* hsv)> change);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_IMAGES_COLORS_H_
