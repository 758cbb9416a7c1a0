// The layers that run where the data is read: Keras' preprocessing of tables, whose bodies are
// transforms (common/data/transforms).
#include "common/model/layers/data_layers.h"

#include "common/data/transform_class.h"

namespace cohort {

std::vector<LayerClass> DataLayers() {
  std::vector<LayerClass> layers;
  for (const char* name : {"CategoryEncoding", "Discretization", "HashedCrossing", "Hashing",
                           "IntegerLookup", "StringLookup", "TextVectorization"}) {
    const auto transform = Transforms().Find(name);
    if (!transform.ok()) continue;  // a test finds a class that is missing
    const ClassSchema& schema = (*transform)->schema;
    layers.push_back(LayerClass{
        .schema = LayerSchema(schema.name, schema.doc + " It reads an Input.", schema.arguments),
        .max_inputs = (*transform)->takes_columns ? kAnyNumberOfInputs : 1,
        .on_data = true,
        .build = [](LayerContext*) -> absl::StatusOr<LayerOutput> {
          return InvalidArgument("it runs where the data is read");
        }});
  }
  return layers;
}

}  // namespace cohort
