// The registry of layers.
#include "common/model/layers/layer.h"
#include "common/model/layers/layer_list.h"

namespace cohort {

#define COHORT_DECLARE(name) LayerClass name##Layer();
COHORT_LAYERS(COHORT_DECLARE)
#undef COHORT_DECLARE

namespace {

// The most used of keras/src/layers that are missing.
constexpr std::string_view kPlannedLayers =
    "AdditiveAttention AlphaDropout Attention AveragePooling3D CategoryEncoding Conv3D Discretization "
    "EinsumDense Hashing IntegerLookup Lambda MaxPooling3D MultiHeadAttention TimeDistributed";

}  // namespace

ClassRegistry<LayerClass>& Layers() {
#define COHORT_CALL(name) name##Layer(),
  static auto& layers =
      *new ClassRegistry<LayerClass>("layer", SchemaSet::Spelling::kExact,
                                     std::string(kPlannedLayers), {COHORT_LAYERS(COHORT_CALL)});
#undef COHORT_CALL
  return layers;
}

}  // namespace cohort
