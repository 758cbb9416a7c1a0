#include "common/model/layers/layer_schemas.h"

namespace cohort {

const SchemaSet& LayerSchemas() { return Layers(); }

Argument InnerNameArgument(std::string_view argument) {
  return String(fmt::format("{}_name", argument),
                "The name of that layer in the names of variables; none: Keras' automatic one.")
      .Optional();
}

std::string InnerName(const Config& config, std::string_view argument) {
  const std::string name = fmt::format("{}_name", argument);
  if (config.Has(name)) return config.String(name);
  return SnakeCase(config.Object(argument).class_name());
}

}  // namespace cohort
