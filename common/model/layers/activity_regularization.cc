// ActivityRegularization (keras/src/layers/regularization/activity_regularization.py).
#include "common/model/regularizers.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildActivityRegularization(LayerContext* context) {
  const v1::ClassConfig penalty = ClassOf("L1L2", {{"l1", ConfigOf(context->config.Float("l1"))},
                                                   {"l2", ConfigOf(context->config.Float("l2"))}});
  COHORT_RETURN_IF_ERROR(AddActivityPenalty(context, penalty, context->inputs[0].value));
  return context->inputs[0];
}

}  // namespace

LayerClass ActivityRegularizationLayer() {
  return {.schema = LayerSchema(
              "ActivityRegularization",
              "Adds a penalty of its input, divided by the records of the batch, to the loss.",
              {Float("l1", "Factor of the sum of the absolute values.").Default(0),
               Float("l2", "Factor of the sum of the squares.").Default(0)}),
          .mask = MaskRule::kPass,
          .build = BuildActivityRegularization};
}

}  // namespace cohort
