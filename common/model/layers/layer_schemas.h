#ifndef COHORT_COMMON_MODEL_LAYERS_LAYER_SCHEMAS_H_
#define COHORT_COMMON_MODEL_LAYERS_LAYER_SCHEMAS_H_

#include <string>
#include <string_view>

#include "common/model/layers/layer.h"

namespace cohort {

// What layers share that have another one as an argument.

// Layers(), as the type that Object takes.
const SchemaSet& LayerSchemas();
// `layer_name`: the name of the layer that is the argument `layer`. Its variables are
// "time_distributed/dense/kernel" in Keras.
Argument InnerNameArgument(std::string_view argument);
// That name; none: Keras' automatic one.
std::string InnerName(const Config& config, std::string_view argument);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_LAYER_SCHEMAS_H_
