// AutoContrast (keras/src/layers/preprocessing/image_preprocessing/auto_contrast.py).
#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/data/images/colors.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenAutoContrast(const Config& config,
                                                 std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs[0]));
  COHORT_ASSIGN_OR_RETURN(const ValueRange range, ValueRangeOf(config));
  return FloatImageTransform(
      input, input.shape.height, input.shape.width,
      [range, size = input.shape.elements(), channels = static_cast<size_t>(input.shape.channels)](
          const RecordContext&, const float* in, float* out) {
        for (size_t channel = 0; channel < channels; ++channel) {
          float low = in[channel], high = in[channel];
          for (size_t i = channel; i < size; i += channels) {
            low = std::min(low, in[i]);
            high = std::max(high, in[i]);
          }
          low = MapRange(low, range, ValueRange{});
          const float scale = 255.0F / (MapRange(high, range, ValueRange{}) - low);
          for (size_t i = channel; i < size; i += channels) {
            const float spread = MapRange(in[i], range, ValueRange{}) * scale - low * scale;
            // A channel of one number stays as it is.
            out[i] = spread == spread
                         ? MapRange(std::clamp(spread, 0.0F, 255.0F), ValueRange{}, range)
                         : in[i];
          }
        }
      });
}

}  // namespace

TransformClass AutoContrastTransform() {
  return {.schema = {.name = "AutoContrast",
                     .doc = "Spreads the numbers of each channel over the whole range, as Keras' "
                            "AutoContrast; float32.",
                     .arguments = {ValueRangeArgument()}},
          .for_images = true,
          .open = OpenAutoContrast};
}

}  // namespace cohort
