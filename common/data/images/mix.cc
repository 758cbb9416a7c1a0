#include "common/data/images/mix.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "common/base/status.h"
#include "common/data/convert.h"

namespace cohort {

std::vector<size_t> DrawPartners(RandomDraws* draws, size_t records) {
  std::vector<size_t> partners(records);
  std::iota(partners.begin(), partners.end(), size_t{0});
  for (size_t left = records; left > 1; --left) {
    std::swap(partners[left - 1],
              partners[static_cast<size_t>(draws->Uniform(0, static_cast<double>(left)))]);
  }
  return partners;
}

void BlendRecords(const BatchMix& mix, const float* in, size_t elements, float* out) {
  for (size_t record = 0; record < mix.partners.size(); ++record) {
    const float weight = mix.weights[record];
    const float* const own = in + record * elements;
    const float* const other = in + mix.partners[record] * elements;
    for (size_t i = 0; i < elements; ++i, ++out) *out = weight * own[i] + (1 - weight) * other[i];
  }
}

void PasteBoxes(const BatchMix& mix, const std::byte* in, const ImageShape& shape,
                size_t pixel_bytes, std::byte* out) {
  const size_t image_bytes = static_cast<size_t>(shape.height * shape.width) * pixel_bytes;
  for (size_t record = 0; record < mix.partners.size(); ++record, out += image_bytes) {
    std::memcpy(out, in + record * image_bytes, image_bytes);
    const std::byte* const other = in + mix.partners[record] * image_bytes;
    const ImagePartBox& box = mix.boxes[record];
    for (int64_t row = 0; row < shape.height; ++row) {
      const auto y = static_cast<float>(row);
      if (y < box.top || y >= box.bottom) continue;
      for (int64_t column = 0; column < shape.width; ++column) {
        const auto x = static_cast<float>(column);
        if (x < box.left || x >= box.right) continue;
        const size_t at = static_cast<size_t>(row * shape.width + column) * pixel_bytes;
        std::memcpy(out + at, other + at, pixel_bytes);
      }
    }
  }
}

absl::StatusOr<RecordTransform> BlendTransform(const FeatureType& type, uint64_t seed,
                                               DrawMix draw) {
  if (!IsFloating(type.dtype) && type.dims.empty()) {
    return InvalidArgument(
        "\"{}\" has integers, and the labels of two records can be blended only as vectors: give "
        "it "
        "CategoryEncoding {{num_tokens: NUMBER_OF_CLASSES, output_mode: one_hot}} before, and use "
        "the loss categorical_crossentropy",
        type.name);
  }
  return RecordTransform{
      .dtype = DType::kFloat32,
      .dims = type.dims,
      .apply_batch = [type, seed, draw = std::move(draw)](
                         const RecordContext& context, size_t records,
                         std::span<const std::byte> input, std::span<std::byte> output) {
        auto* const out = reinterpret_cast<float*>(output.data());
        const size_t count = output.size() / sizeof(float);
        if (!context.training) {
          ConvertNumbers(type.dtype, input.data(), DType::kFloat32, out, count);
          return absl::OkStatus();
        }
        std::vector<float> converted;
        const auto* in = reinterpret_cast<const float*>(input.data());
        if (type.dtype != DType::kFloat32) {
          converted.resize(count);
          ConvertNumbers(type.dtype, input.data(), DType::kFloat32, converted.data(), count);
          in = converted.data();
        }
        RandomDraws draws(context, seed);
        BlendRecords(draw(&draws, records), in, count / records, out);
        return absl::OkStatus();
      }};
}

}  // namespace cohort
