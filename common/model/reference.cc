#include "common/model/reference.h"

#include <fmt/ranges.h>

#include <algorithm>

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

}  // namespace

std::string ClassReference() {
  const struct {
    const char* heading;
    const SchemaSet& classes;
  } kinds[] = {{"Layers", Layers()},
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
  std::string text;
  for (const auto& kind : kinds) {
    text += fmt::format("{}## {}\n", text.empty() ? "" : "\n", kind.heading);
    for (const ClassSchema* schema : kind.classes.Schemas()) text += "\n" + ReferenceOf(*schema);
  }
  return text + "\n" + OperationReference();
}

}  // namespace cohort
