// RandomGaussianBlur (keras/src/layers/preprocessing/image_preprocessing/random_gaussian_blur.py).
#include "common/base/status.h"
#include "common/data/images/blur.h"
#include "common/data/images/colors.h"

namespace cohort {
namespace {

constexpr float kLeastSigma = 1e-6F;

// The rows and columns of the filter.
absl::StatusOr<std::pair<int64_t, int64_t>> FilterSizeOf(const Config& config) {
  std::vector<int64_t> sizes = config.Ints("kernel_size");
  if (sizes.size() == 1) sizes.push_back(sizes[0]);
  if (sizes.size() == 2 && sizes[0] % 2 == 1 && sizes[1] % 2 == 1) {
    return std::pair(sizes[0], sizes[1]);
  }
  return InvalidArgument("kernel_size must be an odd number, or two of them");
}

// Keras writes the product of [columns] and [rows] as [rows, columns] without a transposition,
// which is the same if both are equal.
ImageFilter GaussianFilter(int64_t rows, int64_t columns, float sigma_x, float sigma_y) {
  const std::vector<float> x = GaussianWeights(rows, sigma_x);
  const std::vector<float> y = GaussianWeights(columns, sigma_y);
  ImageFilter filter = {rows, columns, {}};
  for (const float of_y : y) {
    for (const float of_x : x) filter.values.push_back(of_y * of_x);
  }
  return filter;
}

absl::StatusOr<RecordTransform> OpenRandomGaussianBlur(const Config& config,
                                                       std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs[0]));
  COHORT_ASSIGN_OR_RETURN(const FactorRange factor, PositiveFactorOf(config, "factor"));
  COHORT_ASSIGN_OR_RETURN(const FactorRange sigma, PositiveFactorOf(config, "sigma"));
  COHORT_ASSIGN_OR_RETURN(const ValueRange range, ValueRangeOf(config));
  COHORT_ASSIGN_OR_RETURN(const auto size, FilterSizeOf(config));
  return RandomColors(
      input, config, [=, shape = input.shape](RandomDraws* draws, std::span<float> pixels) {
        const double share = draws->Uniform(factor.low, factor.high);
        if (draws->Uniform(0, 1) < share) {
          const auto x = static_cast<float>(draws->Uniform(sigma.low, sigma.high));
          const auto y = static_cast<float>(draws->Uniform(sigma.low, sigma.high));
          const std::vector<float> sharp(pixels.begin(), pixels.end());
          FilterImage(sharp.data(), shape,
                      GaussianFilter(size.first, size.second, x + kLeastSigma, y + kLeastSigma),
                      pixels.data());
        }
        for (float& pixel : pixels) pixel = range.Clip(pixel);
      });
}

}  // namespace

TransformClass RandomGaussianBlurTransform() {
  return {
      .schema = {.name = "RandomGaussianBlur",
                 .doc = "Blurs some of the images, as Keras' RandomGaussianBlur; float32. In "
                        "evaluation: none.",
                 .arguments =
                     {Floats("factor",
                             "Share of the images: a number f for [0, f], or both bounds.")
                          .Default(std::vector<double>{1.0})
                          .Between(0, 1),
                      Ints("kernel_size", "Pixels of the filter on both axes: odd.")
                          .Default(int64_t{3})
                          .Between(1, 999),
                      Floats("sigma",
                             "The standard deviation of the filter in pixels: a number s for [0, "
                             "s], or both bounds.")
                          .Default(std::vector<double>{1.0})
                          .Between(0, 1),
                      ValueRangeArgument(), SeedArgument()}},
      .for_images = true,
      .open = OpenRandomGaussianBlur};
}

}  // namespace cohort
