// The registry of layers.
#include "common/model/layers/data_layers.h"
#include "common/model/layers/layer.h"
#include "common/model/layers/layer_list.h"

namespace cohort {

#define COHORT_DECLARE(name) LayerClass name##Layer();
COHORT_LAYERS(COHORT_DECLARE)
#undef COHORT_DECLARE

namespace {

// The most used of keras/src/layers that are missing.
constexpr std::string_view kPlannedLayers =
    "AlphaDropout AveragePooling3D Conv3D Lambda MaxPooling3D";

std::vector<LayerClass> AllLayers() {
#define COHORT_CALL(name) name##Layer(),
  std::vector<LayerClass> layers = {COHORT_LAYERS(COHORT_CALL)};
#undef COHORT_CALL
  for (LayerClass& layer : DataLayers()) layers.push_back(std::move(layer));
  return layers;
}

}  // namespace

ClassRegistry<LayerClass>& Layers() {
  static auto& layers = *new ClassRegistry<LayerClass>("layer", SchemaSet::Spelling::kExact,
                                                       std::string(kPlannedLayers), AllLayers());
  return layers;
}

}  // namespace cohort
