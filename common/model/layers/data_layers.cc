// The layers that run where the data is read: Keras' preprocessing of tables and images, whose
// bodies are transforms (common/data/transforms).
#include "common/model/layers/data_layers.h"

#include <algorithm>

#include "common/data/transform_class.h"
#include "common/model/layers/axes.h"
#include "common/model/layers/layer_schemas.h"

namespace cohort {
namespace {

constexpr std::string_view kTableLayers[] = {"CategoryEncoding", "Discretization", "HashedCrossing",
                                             "Hashing",          "IntegerLookup",  "StringLookup",
                                             "TextVectorization"};

constexpr std::string_view kPipeline = "Pipeline";

LayerClass DataLayer(const TransformClass& transform) {
  std::vector<Argument> arguments = transform.schema.arguments;
  if (transform.for_images) {
    arguments.push_back(DataFormatArgument());
    arguments.push_back(
        Planned(String("bounding_box_format", "there are no bounding boxes").Optional()));
  }
  return {.schema = LayerSchema(transform.schema.name, transform.schema.doc + " It reads an Input.",
                                std::move(arguments)),
          .max_inputs = transform.takes_columns ? kAnyNumberOfInputs : 1,
          .on_data = true,
          .build = [](LayerContext*) -> absl::StatusOr<LayerOutput> {
            return InvalidArgument("it runs where the data is read");
          }};
}

}  // namespace

std::vector<LayerClass> DataLayers() {
  std::vector<LayerClass> layers;
  for (const ClassSchema* schema : Transforms().Schemas()) {
    const TransformClass& transform = **Transforms().Find(schema->name);
    const bool is_layer = transform.for_images ||
                          std::ranges::count(kTableLayers, std::string_view(schema->name)) > 0;
    if (is_layer) layers.push_back(DataLayer(transform));
  }
  return layers;
}

absl::StatusOr<std::vector<v1::ClassConfig>> TransformsOfLayer(const v1::ClassConfig& layer) {
  std::vector<v1::ClassConfig> transforms;
  if (layer.class_name() == kPipeline) {
    COHORT_ASSIGN_OR_RETURN(const LayerClass* pipeline, Layers().Find(kPipeline));
    COHORT_ASSIGN_OR_RETURN(const v1::ClassConfig complete,
                            CompleteConfig(pipeline->schema, layer));
    for (const v1::ClassConfig& inner : Config(complete).ObjectList("layers")) {
      COHORT_ASSIGN_OR_RETURN(const std::vector<v1::ClassConfig> more, TransformsOfLayer(inner));
      transforms.insert(transforms.end(), more.begin(), more.end());
    }
    return transforms;
  }
  const auto found = Transforms().Find(layer.class_name());
  if (!found.ok()) {
    return InvalidArgument("{} does not run where the data is read, as the layers of a Pipeline do",
                           layer.class_name());
  }
  v1::ClassConfig transform;
  transform.set_class_name((*found)->schema.name);
  for (const auto& [name, value] : layer.config()) {
    const Argument* const argument = (*found)->schema.Find(name);
    if (argument == nullptr || name == "dtype") continue;  // those of all layers
    const bool one_number = argument->type == ArgumentType::kFloat && value.has_list() &&
                            value.list().values_size() == 1;
    (*transform.mutable_config())[name] = one_number ? value.list().values(0) : value;
  }
  transforms.push_back(std::move(transform));
  return transforms;
}

LayerClass PipelineLayer() {
  return {.schema = LayerSchema(
              kPipeline, "Several layers that run where the data is read, one after another.",
              {ObjectList("layers", LayerSchemas, "The layers, in their order.")}),
          .on_data = true,
          .build = [](LayerContext*) -> absl::StatusOr<LayerOutput> {
            return InvalidArgument("it runs where the data is read");
          }};
}

}  // namespace cohort
