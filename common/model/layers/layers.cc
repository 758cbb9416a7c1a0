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
    "AdditiveAttention AlphaDropout Attention Average AveragePooling1D AveragePooling2D "
    "AveragePooling3D BatchNormalization Bidirectional CategoryEncoding Conv1D Conv1DTranspose "
    "Conv2D Conv2DTranspose Conv3D Cropping2D DepthwiseConv2D Discretization Dot ELU EinsumDense "
    "GRU GaussianNoise GlobalAveragePooling2D GlobalMaxPooling1D GlobalMaxPooling2D "
    "GroupNormalization Hashing IntegerLookup LSTM Lambda LayerNormalization LeakyReLU Masking "
    "MaxPooling2D MaxPooling3D Maximum Minimum MultiHeadAttention Normalization PReLU "
    "Permute ReLU RepeatVector SeparableConv2D SimpleRNN Softmax SpatialDropout1D Subtract "
    "TimeDistributed UnitNormalization UpSampling2D ZeroPadding2D";

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
