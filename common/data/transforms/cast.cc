// Cast: numbers as they are, or in another dtype.
#include "common/data/convert.h"
#include "common/data/numbers.h"
#include "common/data/transform_class.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenCast(const Config& config,
                                         std::span<const FeatureType> inputs) {
  const DType from = inputs[0].dtype;
  const DType to = config.IsNone("dtype") ? from : *DTypeFromName(config.String("dtype"));
  const auto count = static_cast<size_t>(NumElements(inputs[0].dims));
  return RecordTransform{
      to, inputs[0].dims,
      [from, to, count](const RecordContext&, std::span<const std::span<const std::byte>> values,
                        std::span<std::byte> output) {
        ConvertNumbers(from, values[0].data(), to, output.data(), count);
        return absl::OkStatus();
      }};
}

absl::StatusOr<Column> CastColumn(const Config& config, uint64_t records,
                                  std::span<const Column> inputs) {
  COHORT_ASSIGN_OR_RETURN(Column column, NumbersOf(inputs[0]));
  if (!config.IsNone("dtype")) column.dtype = *DTypeFromName(config.String("dtype"));
  return column;
}

}  // namespace

TransformClass CastTransform() {
  return {
      .schema = {.name = "Cast",
                 .doc = "Numbers as they are; words become the numbers that they spell. A "
                        "transform without a class is this.",
                 .arguments = {String("dtype", "The type of the result; none: that of the column.")
                                   .OneOf({"float32", "float64", "int32", "int64", "uint8", "bool"})
                                   .Optional()}},
      .open = OpenCast,
      .transform_columns = CastColumn};
}

}  // namespace cohort
