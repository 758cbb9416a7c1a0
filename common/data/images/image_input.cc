#include "common/data/images/image_input.h"

#include <algorithm>
#include <cmath>

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

RecordTransform FloatImageTransform(const ImageInput& input, int64_t height, int64_t width,
                                    ComputeImage compute) {
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
            compute(context, pixels, reinterpret_cast<float*>(output.data()));
            return absl::OkStatus();
          }};
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
