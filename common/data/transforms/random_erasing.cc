// RandomErasing (keras/src/layers/preprocessing/image_preprocessing/random_erasing.py).
#include <cmath>
#include <vector>

#include "common/base/status.h"
#include "common/data/images/colors.h"

namespace cohort {
namespace {

// A part of an axis.
struct AxisPart {
  double begin = 0;
  double end = 0;
  bool Has(int64_t at) const {
    const auto x = static_cast<double>(at);
    return x >= begin && x < end;
  }
};

AxisPart DrawPart(RandomDraws* draws, double share, int64_t size) {
  const auto whole = static_cast<double>(size);
  const double begin = draws->Uniform(0, 1) * (whole - share * whole);
  return {begin, begin + share * whole};
}

absl::StatusOr<RecordTransform> OpenRandomErasing(const Config& config,
                                                  std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs[0]));
  COHORT_ASSIGN_OR_RETURN(const FactorRange factor, PositiveFactorOf(config, "factor"));
  COHORT_ASSIGN_OR_RETURN(const FactorRange scale, PositiveFactorOf(config, "scale"));
  COHORT_ASSIGN_OR_RETURN(const ValueRange range, ValueRangeOf(config));
  const std::vector<double> fill = config.Floats("fill_value");
  if (fill.size() > 1 && fill.size() != static_cast<size_t>(input.shape.channels)) {
    return InvalidArgument("fill_value has {} numbers, and the images have {} channels",
                           fill.size(), input.shape.channels);
  }
  return RandomColors(
      input, config, [=, shape = input.shape](RandomDraws* draws, std::span<float> pixels) {
        const double width_share = std::sqrt(draws->Uniform(scale.low, scale.high));
        const double height_share = std::sqrt(draws->Uniform(scale.low, scale.high));
        const AxisPart columns = DrawPart(draws, width_share, shape.width);
        const AxisPart rows = DrawPart(draws, height_share, shape.height);
        const double share = draws->Uniform(factor.low, factor.high);
        if (draws->Uniform(0, 1) >= share) return;
        size_t i = 0;
        for (int64_t row = 0; row < shape.height; ++row) {
          for (int64_t column = 0; column < shape.width; ++column) {
            for (int64_t c = 0; c < shape.channels; ++c, ++i) {
              if (!rows.Has(row) || !columns.Has(column)) continue;
              const double value = fill.empty()       ? draws->Normal() * range.high
                                   : fill.size() == 1 ? fill[0]
                                                      : fill[static_cast<size_t>(c)];
              pixels[i] = range.Clip(static_cast<float>(value));
            }
          }
        }
      });
}

}  // namespace

TransformClass RandomErasingTransform() {
  return {
      .schema = {.name = "RandomErasing",
                 .doc = "Fills a random rectangle of some of the images, as Keras' RandomErasing; "
                        "float32. In evaluation: of none.",
                 .arguments =
                     {Floats("factor",
                             "Share of the images: a number f for [0, f], or both bounds.")
                          .Default(std::vector<double>{1.0})
                          .Between(0, 1),
                      Floats("scale", "Share of the area: a number f for [0, f], or both bounds.")
                          .Default(std::vector<double>{0.02, 0.33})
                          .Between(0, 1),
                      Floats("fill_value",
                             "What the rectangle has: a number, or one per channel; none: noise.")
                          .Optional(),
                      ValueRangeArgument(), SeedArgument()}},
      .for_images = true,
      .open = OpenRandomErasing};
}

}  // namespace cohort
