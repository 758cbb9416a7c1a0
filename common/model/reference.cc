#include "common/model/reference.h"

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
  return text;
}

}  // namespace cohort
