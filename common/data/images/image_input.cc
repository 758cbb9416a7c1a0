#include "common/data/images/image_input.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/release_if_large.h"
#include "common/tensor/philox.h"

namespace cohort {

absl::StatusOr<ImageInput> ImageInputOf(const FeatureType& input) {
  if (input.dims.size() == 2) {
    return ImageInput{input.dtype, {input.dims[0], input.dims[1], 1}, false};
  }
  if (input.dims.size() == 3) {
    return ImageInput{input.dtype, {input.dims[0], input.dims[1], input.dims[2]}, true};
  }
  return InvalidArgument(
      "column \"{}\" is {}, and an image is [height, width, channels] or [height, width]: give it "
      "a Reshape first",
      input.name, DimsToString(input.dims));
}

absl::StatusOr<ImageInput> ImageInputOf(std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(ImageInput input, ImageInputOf(inputs[0]));
  input.are_masks = inputs.size() > 1;
  return input;
}

RecordTransform FloatImageTransform(const ImageInput& input, int64_t height, int64_t width,
                                    ComputeImage compute) {
  return ComposedImageTransform(
      input, height, width,
      [compute = std::move(compute)](const RecordContext& context, const float* in, float* out) {
        compute(context, in, out);
        return absl::OkStatus();
      });
}

RecordTransform ComposedImageTransform(const ImageInput& input, int64_t height, int64_t width,
                                       TryComputeImage compute) {
  return {DType::kFloat32, input.DimsOf(height, width),
          [input, compute = std::move(compute)](const RecordContext& context,
                                                std::span<const std::span<const std::byte>> values,
                                                std::span<std::byte> output) {
            thread_local std::vector<float> converted;
            const ReleaseIfLarge release(&converted);
            const float* pixels = reinterpret_cast<const float*>(values[0].data());
            if (input.dtype != DType::kFloat32) {
              converted.resize(input.shape.elements());
              ConvertNumbers(input.dtype, values[0].data(), DType::kFloat32, converted.data(),
                             converted.size());
              pixels = converted.data();
            }
            return compute(context, pixels, reinterpret_cast<float*>(output.data()));
          }};
}

RecordTransform InDType(DType dtype, RecordTransform transform) {
  if (transform.dtype == dtype) return transform;
  const auto count = static_cast<size_t>(NumElements(transform.dims));
  Dims dims = transform.dims;
  return {dtype, std::move(dims),
          [dtype, count, floats = std::move(transform)](
              const RecordContext& context, std::span<const std::span<const std::byte>> values,
              std::span<std::byte> output) {
            thread_local std::vector<float> pixels;
            const ReleaseIfLarge release(&pixels);
            pixels.resize(count);
            COHORT_RETURN_IF_ERROR(
                floats.apply(context, values, std::as_writable_bytes(std::span<float>(pixels))));
            if (!IsFloating(dtype)) {
              for (float& pixel : pixels) pixel = std::nearbyint(pixel);
            }
            ConvertNumbers(DType::kFloat32, pixels.data(), dtype, output.data(), count);
            return absl::OkStatus();
          }};
}

absl::Status CheckMasks(std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput masks, ImageInputOf(inputs[0]));
  COHORT_ASSIGN_OR_RETURN(const ImageInput images, ImageInputOf(inputs[1]));
  if (masks.shape.height == images.shape.height && masks.shape.width == images.shape.width) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "the masks \"{}\" are {}, and the images \"{}\" {}: both need the same height and width",
      inputs[0].name, DimsToString(inputs[0].dims), inputs[1].name, DimsToString(inputs[1].dims));
}

std::function<TransformClass::Open> NearestMasks(TransformClass::Open* open) {
  return [open](const Config& config,
                std::span<const FeatureType> inputs) -> absl::StatusOr<RecordTransform> {
    COHORT_RETURN_IF_ERROR(CheckMasks(inputs));
    COHORT_ASSIGN_OR_RETURN(RecordTransform transform, open(config, inputs));
    return InDType(inputs[0].dtype, std::move(transform));
  };
}

RecordTransform PixelTransform(const ImageInput& input, int64_t height, int64_t width,
                               MovePixels move) {
  const size_t pixel_bytes = static_cast<size_t>(input.shape.channels) * SizeOf(input.dtype);
  return {input.dtype, input.DimsOf(height, width),
          [pixel_bytes, move = std::move(move)](const RecordContext& context,
                                                std::span<const std::span<const std::byte>> values,
                                                std::span<std::byte> output) {
            move(context, values[0].data(), pixel_bytes, output.data());
            return absl::OkStatus();
          }};
}

double RandomDraws::Uniform(double low, double high) {
  const PhiloxBlock bits = Philox(drawn_++, seed_, key_);
  return low + (high - low) * UniformFromBits(bits[0] | static_cast<uint64_t>(bits[1]) << 32);
}

double RandomDraws::Normal() {
  const double radius = std::sqrt(-2 * std::log(1 - Uniform(0, 1)));
  return radius * std::cos(2 * std::numbers::pi * Uniform(0, 1));
}

// Marsaglia and Tsang, "A simple method for generating gamma variables", TOMS 26 (2000). A number
// for alpha below 1 may be too small for a double, and its logarithm is not.
double RandomDraws::LogGamma(double alpha) {
  if (alpha < 1) return LogGamma(alpha + 1) + std::log(1 - Uniform(0, 1)) / alpha;
  const double d = alpha - 1.0 / 3;
  while (true) {
    const double x = Normal();
    const double v = 1 + x / std::sqrt(9 * d);
    if (v <= 0) continue;
    const double log_v = 3 * std::log(v);
    if (std::log(1 - Uniform(0, 1)) < 0.5 * x * x + d - d * v * v * v + d * log_v) {
      return std::log(d) + log_v;
    }
  }
}

std::vector<double> RandomDraws::Dirichlet(size_t count, double alpha) {
  std::vector<double> shares(count);
  for (double& share : shares) share = LogGamma(alpha);
  const double largest = *std::max_element(shares.begin(), shares.end());
  double sum = 0;
  for (double& share : shares) sum += share = std::exp(share - largest);
  for (double& share : shares) share /= sum;
  return shares;
}

Argument SeedArgument() {
  return Int("seed", "Combined with the job's seed, the epoch and the record; none: 0.")
      .Optional()
      .AtLeast(0);
}

uint64_t SeedOf(const Config& config) {
  return config.IsNone("seed") ? 0 : static_cast<uint64_t>(config.Int("seed"));
}

absl::StatusOr<FactorRange> FactorOf(const Config& config, std::string_view name) {
  const std::vector<double> values = config.Floats(name);
  if (values.size() == 1) return FactorRange{-std::abs(values[0]), std::abs(values[0])};
  if (values.size() == 2) {
    return FactorRange{std::min(values[0], values[1]), std::max(values[0], values[1])};
  }
  return InvalidArgument("{} must be a number or two bounds, not {} numbers", name, values.size());
}

}  // namespace cohort
