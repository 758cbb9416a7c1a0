// RandomPosterization (keras/src/layers/preprocessing/image_preprocessing/random_posterization.py).
#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/data/images/colors.h"

namespace cohort {
namespace {

constexpr int kPosterBits = 8;

absl::StatusOr<RecordTransform> OpenRandomPosterization(const Config& config,
                                                        std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs[0]));
  COHORT_ASSIGN_OR_RETURN(FactorRange bits, FactorOf(config, "factor"));
  if (config.Floats("factor").size() == 1) bits.low = 1;
  COHORT_ASSIGN_OR_RETURN(const ValueRange range, ValueRangeOf(config));
  return RandomColors(input, config, [bits, range](RandomDraws* draws, std::span<float> pixels) {
    const auto kept = static_cast<int>(std::floor(draws->Uniform(bits.low, bits.high)));
    const unsigned mask = 0xffU << (kPosterBits - kept);
    for (float& x : pixels) {
      const float byte = std::clamp(MapRange(x, range, ValueRange{}), 0.0F, 255.0F);
      x = MapRange(static_cast<float>(static_cast<unsigned>(byte) & mask), ValueRange{}, range);
    }
  });
}

}  // namespace

TransformClass RandomPosterizationTransform() {
  return {.schema = {.name = "RandomPosterization",
                     .doc = "Keeps only the first bits of each number, as Keras' "
                            "RandomPosterization; float32. In evaluation: keeps all.",
                     .arguments = {Floats("factor",
                                          "How many bits: a number f for [1, f), or both bounds.")
                                       .Between(1, kPosterBits),
                                   ValueRangeArgument(), SeedArgument()}},
          .for_images = true,
          .open = OpenRandomPosterization};
}

}  // namespace cohort
