#include "common/model/layers/layer_names.h"

#include <fmt/format.h>

#include "common/schema/class_registry.h"

namespace cohort {

std::string LayerNames::Next(std::string_view class_name) {
  // Keras' class is InputLayer; `Input` makes one.
  if (class_name.starts_with("ops.")) class_name.remove_prefix(4);
  const std::string base = class_name == "Input" ? "input_layer" : SnakeCase(class_name);
  const int number = counts_[base]++;
  return number == 0 ? base : fmt::format("{}_{}", base, number);
}

}  // namespace cohort
