#include "common/data/category.h"

#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/data/convert.h"

namespace cohort {
namespace {

// The shape of a record's vectors.
Dims VectorDims(const CategoryOutput& output, const Dims& input) {
  Dims dims = input;
  const bool last_goes = output.mode != "one_hot" || (!dims.empty() && dims.back() == 1);
  if (last_goes && !dims.empty()) dims.pop_back();
  dims.push_back(output.depth);
  return dims;
}

// Writes vectors of `per_vector` numbers each.
absl::Status Write(const CategoryOutput& output, std::span<const int64_t> numbers,
                   size_t per_vector, std::span<std::byte> to) {
  const size_t bytes = static_cast<size_t>(output.depth) * sizeof(float);
  for (size_t v = 0; v < to.size() / bytes; ++v) {
    COHORT_RETURN_IF_ERROR(WriteVector(output, numbers.subspan(v * per_vector, per_vector),
                                       to.subspan(v * bytes, bytes)));
  }
  return absl::OkStatus();
}

template <typename T>
CategoryInput InputOf(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return {ConvertNumber<int64_t>(value, 1, 0), static_cast<double>(value)};
  } else {
    return {static_cast<int64_t>(value), static_cast<double>(value)};
  }
}

}  // namespace

absl::Status WriteVector(const CategoryOutput& output, std::span<const int64_t> numbers,
                         std::span<std::byte> to) {
  thread_local std::vector<float> values;
  values.assign(static_cast<size_t>(output.depth), 0.0F);
  const bool counts = output.mode == "count" || output.mode == "tf_idf";
  for (const int64_t number : numbers) {
    if (number < 0) continue;
    if (number >= output.depth) {
      return InvalidArgument("{} is not one of the numbers below {}", number, output.depth);
    }
    float& value = values[static_cast<size_t>(number)];
    value = counts ? value + 1 : 1;
  }
  if (output.mode == "tf_idf") {
    for (size_t i = 0; i < values.size(); ++i) values[i] *= output.weights[i];
  }
  std::memcpy(to.data(), values.data(), to.size());
  return absl::OkStatus();
}

Argument OutputModeArgument(std::string_view default_mode, std::vector<std::string> modes) {
  return String("output_mode", "How the numbers of categories are given.")
      .Default(default_mode)
      .OneOf(std::move(modes));
}

Argument SparseArgument() { return Planned(Bool("sparse", "batches are dense").Default(false)); }

RecordTransform CategoryTransform(CategoryOutput output, const FeatureType& input, DType int_dtype,
                                  CategoryOf category) {
  const size_t per_vector =
      output.mode == "one_hot" || input.dims.empty() ? 1 : static_cast<size_t>(input.dims.back());
  RecordTransform transform;
  transform.dtype = output.is_int() ? int_dtype : DType::kFloat32;
  transform.dims = output.is_int() ? input.dims : VectorDims(output, input.dims);
  transform.apply = [output = std::move(output), from = input.dtype, int_dtype, per_vector,
                     category = std::move(category)](
                        const RecordContext&, std::span<const std::span<const std::byte>> values,
                        std::span<std::byte> to) -> absl::Status {
    std::vector<int64_t> numbers;
    absl::Status status;
    WithType(from, [&](auto number) {
      const size_t count = values[0].size() / sizeof(number);
      for (size_t i = 0; i < count && status.ok(); ++i) {
        std::memcpy(&number, values[0].data() + i * sizeof(number), sizeof(number));
        const absl::StatusOr<int64_t> found = category(InputOf(number));
        found.ok() ? numbers.push_back(*found) : void(status = found.status());
      }
    });
    if (!status.ok()) return status;
    if (!output.is_int()) return Write(output, numbers, per_vector, to);
    ConvertNumbers(DType::kInt64, numbers.data(), int_dtype, to.data(), numbers.size());
    return absl::OkStatus();
  };
  return transform;
}

absl::StatusOr<std::optional<RecordTransform>> EncodeCategories(CategoryOutput output,
                                                                const FeatureType& numbers) {
  if (output.is_int()) return std::nullopt;
  return CategoryTransform(std::move(output), numbers, DType::kInt64,
                           [](const CategoryInput& input) { return input.integer; });
}

}  // namespace cohort
