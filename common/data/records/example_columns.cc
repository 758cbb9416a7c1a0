#include "common/data/records/example_columns.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/convert.h"
#include "proto/tf_example.pb.h"

namespace cohort {
namespace {

struct FeatureKind {
  ClassSchema schema;
};

constexpr std::string_view kImage = "image";

absl::Status ShapeDiffers(const FeatureType& column, size_t numbers) {
  return DataLoss("has {} numbers, and the shape {} needs {}", numbers, DimsToString(column.dims),
                  NumElements(column.dims));
}

template <typename Values>
absl::Status CopyNumbers(const FeatureType& column, DType stored, const Values& values,
                         std::span<std::byte> out) {
  if (values.size() != NumElements(column.dims)) {
    return ShapeDiffers(column, static_cast<size_t>(values.size()));
  }
  if (out.empty()) return absl::OkStatus();
  ConvertNumbers(stored, values.data(), column.dtype, out.data(),
                 static_cast<size_t>(values.size()));
  return absl::OkStatus();
}

// Errors: DataLoss if an integer column cannot hold all of the numbers: one has a fraction, or is
// too large.
template <typename Values>
absl::Status CheckRange(const FeatureType& column, const Values& values) {
  absl::Status status;
  WithType(column.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      const auto bad = std::find_if_not(values.begin(), values.end(), [](auto value) {
        if constexpr (std::is_integral_v<decltype(value)>) return std::in_range<T>(value);
        const auto number = static_cast<double>(value);  // 2^63 is the least that int64 lacks
        return number == std::trunc(number) &&
               number >= static_cast<double>(std::numeric_limits<T>::min()) &&
               number < static_cast<double>(std::numeric_limits<T>::max() / 2 + 1) * 2;
      });
      if (bad == values.end()) return;
      status = DataLoss("has {}, which a column of {} cannot hold: give it another dtype", *bad,
                        DTypeName(column.dtype));
    }
  });
  return status;
}

// A string of bytes is the memory of a uint8 tensor.
absl::Status CopyBytes(const FeatureType& column, const v1::TfBytesList& list,
                       std::span<std::byte> out) {
  if (column.dtype != DType::kUint8 || list.value_size() != 1) {
    return DataLoss("is text: an encoded image is read by `image: {{}}`, bytes by dtype uint8");
  }
  if (static_cast<int64_t>(list.value(0).size()) != NumElements(column.dims)) {
    return ShapeDiffers(column, list.value(0).size());
  }
  if (!out.empty()) std::memcpy(out.data(), list.value(0).data(), out.size());
  return absl::OkStatus();
}

// `out` may be empty: then the numbers are only checked.
absl::Status DecodeNumbers(const FeatureType& column, const v1::TfFeature& feature,
                           std::span<std::byte> out) {
  switch (feature.kind_case()) {
    case v1::TfFeature::kFloatList:
      COHORT_RETURN_IF_ERROR(CheckRange(column, feature.float_list().value()));
      return CopyNumbers(column, DType::kFloat32, feature.float_list().value(), out);
    case v1::TfFeature::kInt64List:
      COHORT_RETURN_IF_ERROR(CheckRange(column, feature.int64_list().value()));
      return CopyNumbers(column, DType::kInt64, feature.int64_list().value(), out);
    case v1::TfFeature::kBytesList:
      return CopyBytes(column, feature.bytes_list(), out);
    case v1::TfFeature::KIND_NOT_SET:
      break;
  }
  return ShapeDiffers(column, 0);
}

absl::StatusOr<std::string_view> EncodedImage(const v1::TfFeature& feature) {
  if (feature.bytes_list().value_size() == 1) return feature.bytes_list().value(0);
  return DataLoss("has {} strings of bytes; an image is one", feature.bytes_list().value_size());
}

// Calls `use(column, feature)` for each column that `wanted(column)`.
template <typename Wanted, typename Use>
absl::Status WithFeatures(std::string_view record, const std::vector<FeatureType>& columns,
                          const Wanted& wanted, const Use& use) {
  v1::TfExample example;
  if (!example.ParseFromArray(record.data(), static_cast<int>(record.size()))) {
    return DataLoss("is not a tf.Example");
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    if (!wanted(i)) continue;
    const auto& features = example.features().feature();
    const auto found = std::find_if(features.begin(), features.end(), [&](const auto& feature) {
      return feature.name() == columns[i].name;
    });
    if (found == features.end()) {
      std::vector<std::string> names;
      for (const auto& feature : features) names.push_back(feature.name());
      std::sort(names.begin(), names.end());
      return DataLoss("has no feature \"{}\"; it has {}", columns[i].name,
                      PrintableLine(fmt::format("{}", fmt::join(names, ", "))));
    }
    COHORT_RETURN_IF_ERROR(Annotate(use(i, found->value()),
                                    fmt::format("feature \"{}\"", PrintableLine(columns[i].name))));
  }
  return absl::OkStatus();
}

}  // namespace

const SchemaSet& FeatureKinds() {
  static const auto& kinds = *new ClassRegistry<FeatureKind>(
      "feature kind", SchemaSet::Spelling::kAnyCase, "",
      {{.schema = {.name = std::string(kImage),
                   .doc = "An encoded JPEG or PNG.",
                   .arguments = ImageColumn::Arguments({})}},
       {.schema = {
            .name = "tensor",
            .doc = "Numbers, as many in every record.",
            .arguments = {String("dtype", "The type of the column.")
                              .Default("float32")
                              .OneOf({"float32", "float64", "int32", "int64", "uint8", "bool"}),
                          Ints("shape", "Of a record; []: one number.")
                              .Default(std::vector<int64_t>{})
                              .AtLeast(1)}}}});
  return kinds;
}

absl::StatusOr<ExampleColumns> ExampleColumns::Create(
    const std::map<std::string, v1::ClassConfig>& features) {
  if (features.empty()) return InvalidArgument("`features` names no feature");
  ExampleColumns made;
  for (const auto& [name, config] : features) {
    const Config arguments(config);
    const auto at = [&name = name](absl::Status status) { return Annotate(status, name); };
    if (config.class_name() == kImage) {
      COHORT_RETURN_IF_ERROR(at(ImageColumn::Check(arguments)));
      const ImageColumn& image = *made.images_.emplace_back(arguments);
      made.columns_.push_back({name, DType::kFloat32, image.dims()});
      continue;
    }
    made.images_.emplace_back();
    made.columns_.push_back(
        {name, *DTypeFromName(arguments.String("dtype")), arguments.Ints("shape")});
    COHORT_RETURN_IF_ERROR(
        at(CheckColumnType(made.columns_.back().dtype, made.columns_.back().dims)));
  }
  return made;
}

absl::Status ExampleColumns::Decode(std::string_view record,
                                    std::span<const std::span<std::byte>> values) const {
  return WithFeatures(
      record, columns_, [&](size_t i) { return !values[i].empty(); },
      [&](size_t i, const v1::TfFeature& feature) -> absl::Status {
        if (!images_[i]) return DecodeNumbers(columns_[i], feature, values[i]);
        COHORT_ASSIGN_OR_RETURN(const std::string_view image, EncodedImage(feature));
        return images_[i]->Decode(image, values[i]);
      });
}

absl::Status ExampleColumns::Check(std::string_view record) const {
  return WithFeatures(
      record, columns_, [](size_t) { return true; },
      [&](size_t i, const v1::TfFeature& feature) -> absl::Status {
        if (!images_[i]) return DecodeNumbers(columns_[i], feature, {});
        COHORT_ASSIGN_OR_RETURN(const std::string_view image, EncodedImage(feature));
        return images_[i]->CheckImage(image);
      });
}

}  // namespace cohort
