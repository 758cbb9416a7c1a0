// Cast: numbers as they are, or in another dtype.
#include "common/data/transform_class.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenCast(const Config& config,
                                         std::span<const FeatureType> inputs) {
  return RecordTransform{
      .dtype = config.IsNone("dtype") ? inputs[0].dtype : *DTypeFromName(config.String("dtype")),
      .dims = inputs[0].dims,
      .conversion = Conversion{}};
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
      .elementwise = true};
}

}  // namespace cohort
