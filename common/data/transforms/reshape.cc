// Reshape (keras/src/layers/reshaping/reshape.py).
#include "common/base/status.h"
#include "common/data/transform_class.h"

namespace cohort {
namespace {

// The shape with its -1, if it has one, replaced by what is left.
absl::StatusOr<Dims> TargetShape(const Config& config, const Dims& from) {
  Dims to = config.Ints("target_shape");
  const int64_t elements = NumElements(from);
  int64_t product = 1;
  int64_t* open = nullptr;
  for (int64_t& size : to) {
    if (size == -1 && open == nullptr) {
      open = &size;
    } else if (size < 1 || size > elements) {
      product = 0;
    } else {
      product = product > elements ? 0 : product * size;
    }
  }
  if (open != nullptr && product > 0) {
    *open = elements / product;
    product *= *open;
  }
  if (product == elements) return to;
  return InvalidArgument("target_shape: {} cannot become {}", DimsToString(from),
                         DimsToString(config.Ints("target_shape")));
}

absl::StatusOr<RecordTransform> OpenReshape(const Config& config,
                                            std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(Dims dims, TargetShape(config, inputs[0].dims));
  return RecordTransform{
      .dtype = inputs[0].dtype, .dims = std::move(dims), .conversion = Conversion{}};
}

}  // namespace

TransformClass ReshapeTransform() {
  return {.schema = {.name = "Reshape",
                     .doc = "The same numbers in another shape, as Keras' Reshape.",
                     .arguments = {Ints("target_shape",
                                        "The shape of a record; -1 stands for what is left.")
                                       .AtLeast(-1)}},
          .open = OpenReshape,
          .elementwise = true};
}

}  // namespace cohort
