// Solarization (keras/src/layers/preprocessing/image_preprocessing/solarization.py).
#include <algorithm>

#include "common/base/status.h"
#include "common/data/images/colors.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenSolarization(const Config& config,
                                                 std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs[0]));
  COHORT_ASSIGN_OR_RETURN(const FactorRange addition, PositiveFactorOf(config, "addition_factor"));
  COHORT_ASSIGN_OR_RETURN(const FactorRange threshold,
                          PositiveFactorOf(config, "threshold_factor"));
  COHORT_ASSIGN_OR_RETURN(const ValueRange range, ValueRangeOf(config));
  return RandomColors(
      input, config, [addition, threshold, range](RandomDraws* draws, std::span<float> pixels) {
        // Keras multiplies only the upper bounds.
        const auto added = static_cast<float>(draws->Uniform(addition.low, addition.high * 255));
        const auto least = static_cast<float>(draws->Uniform(threshold.low, threshold.high * 255));
        for (float& x : pixels) {
          const float sum = std::clamp(MapRange(x, range, ValueRange{}) + added, 0.0F, 255.0F);
          x = MapRange(sum < least ? sum : 255 - sum, ValueRange{}, range);
        }
      });
}

Argument SolarizationFactor(std::string_view name, std::string_view doc) {
  return Floats(name, doc).Default(std::vector<double>{0.0}).Between(0, 1);
}

}  // namespace

TransformClass SolarizationTransform() {
  return {.schema = {.name = "Solarization",
                     .doc = "Inverts the numbers above a random threshold, as Keras' Solarization; "
                            "float32. In evaluation: none.",
                     .arguments = {SolarizationFactor(
                                       "addition_factor",
                                       "The share of the range that is added first: a number f for "
                                       "[0, f], or both bounds."),
                                   SolarizationFactor(
                                       "threshold_factor",
                                       "The threshold as a share of the range: a number f for "
                                       "[0, f], or both bounds."),
                                   ValueRangeArgument(), SeedArgument()}},
          .for_images = true,
          .open = OpenSolarization};
}

}  // namespace cohort
