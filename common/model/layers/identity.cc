// Identity (keras/src/layers/core/identity.py).
#include "common/model/layers/layer.h"

namespace cohort {

LayerClass IdentityLayer() {
  return {.schema = LayerSchema("Identity", "Its input.", {}),
          .mask = MaskRule::kPass,
          .build = [](LayerContext* context) -> absl::StatusOr<LayerOutput> {
            return context->inputs[0];
          }};
}

}  // namespace cohort
