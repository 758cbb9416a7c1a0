#include "common/model/reference.h"

#include <absl/strings/ascii.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/data/source_class.h"
#include "common/data/transform_class.h"
#include "common/model/activations.h"
#include "common/model/callbacks/callback.h"
#include "common/model/layers/cells.h"
#include "common/model/losses/loss.h"
#include "common/model/metrics/metric.h"
#include "common/model/partitioners.h"
#include "common/model/regularizers.h"
#include "common/optimizers/constraints.h"
#include "common/optimizers/optimizers.h"
#include "common/placement/initializer_classes.h"

namespace cohort {

namespace {

using Json = nlohmann::ordered_json;

// "x2=1, axis=none"
std::string ArgumentsOf(const LayerClass& operation) {
  std::vector<std::string> arguments = operation.call;
  if (arguments.empty() && operation.max_inputs > 0) arguments.push_back("inputs");
  for (const Argument& argument : operation.schema.arguments) {
    if (argument.planned) continue;
    const auto known = std::find(arguments.begin(), arguments.end(), argument.name);
    if (known != arguments.end()) continue;
    arguments.push_back(argument.required ? argument.name
                                          : fmt::format("{}={}", argument.name,
                                                        ConfigText(argument.default_value)));
  }
  return fmt::format("{}", fmt::join(arguments, ", "));
}

// One row for each operation: they have few arguments, and those of NumPy.
std::string OperationReference() {
  std::string text = "## Operations\n\n| function | arguments | result |\n|---|---|---|\n";
  for (const ClassSchema* schema : Operations().Schemas()) {
    const auto operation = Operations().Find(schema->name);
    std::string doc = schema->doc;  // a bar would end the cell
    for (size_t at = 0; (at = doc.find('|', at)) != std::string::npos; at += 2)
      doc.insert(at, "\\");
    text += fmt::format("| `{}` | {} | {} |\n", schema->name, ArgumentsOf(**operation), doc);
  }
  return text;
}

// All kinds but the operations, in the order of the reference.
struct Kind {
  const char* heading;
  const SchemaSet& classes;
};

std::vector<Kind> Kinds() {
  return {{"Layers", Layers()},
          {"Cells", CellSchemas()},
          {"Activations", Activations()},
          {"Initializers", InitializerSchemas()},
          {"Regularizers", RegularizerSchemas()},
          {"Constraints", ConstraintSchemas()},
          {"Losses", Losses()},
          {"Metrics", Metrics()},
          {"Callbacks", CallbackSchemas()},
          {"Optimizers", OptimizerSchemas()},
          {"Schedules", ScheduleSchemas()},
          {"Partitioners", PartitionerSchemas()},
          {"Sources", Sources()},
          {"Transforms", Transforms()}};
}

Json JsonOf(const ClassSchema& schema) {
  Json arguments = Json::object();
  for (const Argument& argument : schema.arguments) {
    Json& entry = arguments[argument.name] = Json::object();
    if (argument.planned) entry["planned"] = true;
    if (!argument.required) entry["default"] = ConfigText(argument.default_value);
    if (!argument.choices.empty()) entry["choices"] = argument.choices;
  }
  Json entry = {{"arguments", std::move(arguments)}};
  if (!schema.aliases.empty()) entry["aliases"] = schema.aliases;
  return entry;
}

Json JsonOf(const LayerClass& layer) {
  Json entry = JsonOf(layer.schema);
  entry["call"] = layer.call;
  entry["inputs"] = {layer.min_inputs, layer.max_inputs};
  return entry;
}

}  // namespace

std::string ClassReference() {
  std::string text;
  for (const Kind& kind : Kinds()) {
    text += fmt::format("{}## {}\n", text.empty() ? "" : "\n", kind.heading);
    for (const ClassSchema* schema : kind.classes.Schemas()) text += "\n" + ReferenceOf(*schema);
  }
  return text + "\n" + OperationReference();
}

std::string ClassReferenceJson() {
  Json reference = Json::object();
  for (const Kind& kind : Kinds()) {
    Json& classes = reference[absl::AsciiStrToLower(kind.heading)] = Json::object();
    for (const ClassSchema* schema : kind.classes.Schemas())
      classes[schema->name] = JsonOf(*schema);
  }
  const std::pair<const char*, ClassRegistry<LayerClass>&> layers[] = {
      {"layers", Layers()}, {"operations", Operations()}};
  for (const auto& [name, classes] : layers) {
    for (const ClassSchema* schema : classes.Schemas()) {
      reference[name][schema->name] = JsonOf(**classes.Find(schema->name));
    }
  }
  return reference.dump() + "\n";
}

}  // namespace cohort
