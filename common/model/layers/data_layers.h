#ifndef COHORT_COMMON_MODEL_LAYERS_DATA_LAYERS_H_
#define COHORT_COMMON_MODEL_LAYERS_DATA_LAYERS_H_

#include <vector>

#include "common/model/layers/layer.h"

namespace cohort {

// The layers that run where the data is read.
std::vector<LayerClass> DataLayers();

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_DATA_LAYERS_H_
