// The registry of layers.
#include "common/model/layers/data_layers.h"
#include "common/model/layers/layer.h"
#include "common/model/layers/layer_list.h"

namespace cohort {

#define COHORT_DECLARE(name) LayerClass name##Layer();
COHORT_LAYERS(COHORT_DECLARE)
#undef COHORT_DECLARE

namespace {

// What Keras has and no version of Cohort can have.
const std::map<std::string, std::string> kRefusedLayers = {
    {"Lambda",
     "a function of Python cannot run in a task; write it with functions of keras.ops, which are "
     "layers here: `x * 2` is {ops.multiply: {x2: 2}}, and keras.ops.mean(x, axis=1) is "
     "{ops.mean: {axis: 1}}"}};

// Keras' short and long names of the same classes, without the number of axes.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"AveragePooling", "AvgPool"},
    {"Conv", "Convolution"},
    {"GlobalAveragePooling", "GlobalAvgPool"},
    {"GlobalMaxPooling", "GlobalMaxPool"},
    {"MaxPooling", "MaxPool"},
    {"SeparableConv", "SeparableConvolution"}};

// "MaxPool2D" of "MaxPooling2D", and "Convolution2DTranspose" of "Conv2DTranspose".
void AddOtherName(ClassSchema* schema) {
  const size_t end = schema->name.find_first_of("0123456789");
  if (end == std::string::npos) return;
  for (const auto& [name, other] : kOtherNames) {
    if (schema->name.substr(0, end) != name) continue;
    schema->aliases.push_back(std::string(other) + schema->name.substr(end));
  }
}

std::vector<LayerClass> AllLayers() {
#define COHORT_CALL(name) name##Layer(),
  std::vector<LayerClass> layers = {COHORT_LAYERS(COHORT_CALL)};
#undef COHORT_CALL
  for (LayerClass& layer : DataLayers()) layers.push_back(std::move(layer));
  for (LayerClass& layer : layers) AddOtherName(&layer.schema);
  return layers;
}

}  // namespace

ClassRegistry<LayerClass>& Layers() {
  static auto& layers = *new ClassRegistry<LayerClass>("layer", SchemaSet::Spelling::kExact, "",
                                                       AllLayers(), kRefusedLayers);
  return layers;
}

}  // namespace cohort
