#ifndef COHORT_COMMON_MODEL_LAYERS_DATA_LAYERS_H_
#define COHORT_COMMON_MODEL_LAYERS_DATA_LAYERS_H_

#include <vector>

#include "common/model/layers/layer.h"

namespace cohort {

// The layers that run where the data is read, each of which is a transform.
std::vector<LayerClass> DataLayers();

// The transforms of such a layer, or of a layer that has a body of its own and a transform of the
// same name, as Rescaling: itself, or those of a Pipeline. Errors: InvalidArgument for others.
absl::StatusOr<std::vector<v1::ClassConfig>> TransformsOfLayer(const v1::ClassConfig& layer);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_DATA_LAYERS_H_
