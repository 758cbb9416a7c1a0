// Flatten (keras/src/layers/reshaping/flatten.py).
#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {

LayerClass FlattenLayer() {
  return {.schema = LayerSchema("Flatten", "One axis of all axes after the batch.",
                                {Planned(String("data_format", "").Default("channels_last"))}),
          .build = [](LayerContext* context) -> absl::StatusOr<LayerOutput> {
            const Expr x = context->inputs[0].value;
            return Reshape(x, {-1, ElementsPerRecord(x.type())});
          }};
}

}  // namespace cohort
