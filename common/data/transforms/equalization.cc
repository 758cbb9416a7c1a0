// Equalization (keras/src/layers/preprocessing/image_preprocessing/equalization.py).
#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/data/images/colors.h"

namespace cohort {
namespace {

// One channel, whose numbers lie `step` apart.
void EqualizeChannel(std::span<float> pixels, size_t first, size_t step, const ValueRange& range,
                     int64_t bins) {
  const auto last_bin = static_cast<float>(bins - 1);
  const auto bin_of = [&](float scaled) {
    return static_cast<size_t>(std::clamp(scaled, 0.0F, last_bin));
  };
  std::vector<int64_t> below(static_cast<size_t>(bins));  // a histogram, then its sums
  for (size_t i = first; i < pixels.size(); i += step) {
    pixels[i] = MapRange(pixels[i], range, ValueRange{});
    ++below[bin_of(pixels[i] * last_bin / 255.0F)];
  }
  if (std::ranges::count_if(below, [](int64_t n) { return n > 0; }) > 1) {
    for (size_t bin = 1; bin < below.size(); ++bin) below[bin] += below[bin - 1];
    const int64_t least = *std::ranges::find_if(below, [](int64_t n) { return n > 0; });
    const auto others = static_cast<double>(below.back() - least);
    for (size_t i = first; i < pixels.size(); i += step) {
      const int64_t rank = below[bin_of(pixels[i] / 255.0F * last_bin)] - least;
      const double equalized = std::nearbyint(static_cast<double>(rank * 255) / others);
      pixels[i] = static_cast<float>(std::clamp(equalized, 0.0, 255.0));
    }
  }
  for (size_t i = first; i < pixels.size(); i += step) {
    pixels[i] = MapRange(pixels[i], ValueRange{}, range);
  }
}

absl::StatusOr<RecordTransform> OpenEqualization(const Config& config,
                                                 std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs[0]));
  COHORT_ASSIGN_OR_RETURN(const ValueRange range, ValueRangeOf(config));
  return FloatImageTransform(input, input.shape.height, input.shape.width,
                             [range, bins = config.Int("bins"), size = input.shape.elements(),
                              channels = static_cast<size_t>(input.shape.channels)](
                                 const RecordContext& context, const float* in, float* out) {
                               std::copy_n(in, size, out);
                               if (!context.training) return;
                               for (size_t channel = 0; channel < channels; ++channel) {
                                 EqualizeChannel({out, size}, channel, channels, range, bins);
                               }
                             });
}

}  // namespace

TransformClass EqualizationTransform() {
  return {
      .schema = {.name = "Equalization",
                 .doc = "Spreads the numbers of each channel so that all are about equally "
                        "frequent, as Keras' Equalization; float32. In evaluation: none, as "
                        "Keras' layer does.",
                 .arguments = {ValueRangeArgument(),
                               Int("bins", "Of the histogram.").Default(256).Between(2, 65536)}},
      .for_images = true,
      .open = OpenEqualization};
}

}  // namespace cohort
