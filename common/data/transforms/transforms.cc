// The registry of transforms.
#include "common/data/transform_class.h"
#include "common/data/transforms/transform_list.h"

namespace cohort {

#define COHORT_DECLARE(name) TransformClass name##Transform();
COHORT_TRANSFORMS(COHORT_DECLARE)
#undef COHORT_DECLARE

namespace {

// The preprocessing layers of Keras that are missing.
constexpr std::string_view kPlannedTransforms =
    "MaxNumBoundingBoxes MelSpectrogram STFTSpectrogram";

}  // namespace

ClassRegistry<TransformClass>& Transforms() {
#define COHORT_CALL(name) name##Transform(),
  static auto& transforms = *new ClassRegistry<TransformClass>(
      "transform", SchemaSet::Spelling::kAnyCase, std::string(kPlannedTransforms),
      {COHORT_TRANSFORMS(COHORT_CALL)});
#undef COHORT_CALL
  return transforms;
}

}  // namespace cohort
