// Rescaling (keras/src/layers/preprocessing/rescaling.py).
#include "common/data/convert.h"
#include "common/data/numbers.h"
#include "common/data/transform_class.h"

namespace cohort {
namespace {

DType RescaledType(DType input) { return IsFloating(input) ? input : DType::kFloat32; }

absl::StatusOr<RecordTransform> OpenRescaling(const Config& config,
                                              std::span<const FeatureType> inputs) {
  const DType from = inputs[0].dtype;
  const auto count = static_cast<size_t>(NumElements(inputs[0].dims));
  return RecordTransform{
      RescaledType(from), inputs[0].dims,
      [from, count, scale = config.Float("scale"), offset = config.Float("offset")](
          const RecordContext&, std::span<const std::span<const std::byte>> values,
          std::span<std::byte> output) {
        ConvertNumbers(from, values[0].data(), RescaledType(from), output.data(), count, scale,
                       offset);
        return absl::OkStatus();
      }};
}

// Changes no value: the scale is applied when a batch is gathered.
absl::StatusOr<Column> RescalingColumn(const Config& config, uint64_t records,
                                       std::span<const Column> inputs) {
  COHORT_ASSIGN_OR_RETURN(Column column, NumbersOf(inputs[0]));
  const double scale = config.Float("scale");
  column.scale *= scale;
  column.offset = column.offset * scale + config.Float("offset");
  column.dtype = RescaledType(column.dtype);
  return column;
}

}  // namespace

TransformClass RescalingTransform() {
  return {.schema = {.name = "Rescaling",
                     .doc = "x * scale + offset, as Keras' Rescaling; float32 for integers.",
                     .arguments = {Float("scale", "The factor.").Default(1.0),
                                   Float("offset", "Added after scaling.").Default(0.0)}},
          .open = OpenRescaling,
          .transform_columns = RescalingColumn};
}

}  // namespace cohort
