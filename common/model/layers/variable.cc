// A variable as a layer: what the model of a framework calls a parameter.
#include "common/model/layers/layer.h"
#include "common/model/regularizers.h"
#include "common/optimizers/constraints.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildVariable(LayerContext* context) {
  COHORT_ASSIGN_OR_RETURN(const Expr value,
                          context->Weight("", context->config.Ints("shape"), "initializer"));
  return value;
}

}  // namespace

LayerClass VariableLayer() {
  return {.schema =
              LayerSchema("Variable", "A variable that has the name of the layer; it has no batch.",
                          {Ints("shape", "Its shape; []: a scalar."),
                           InitializerArgument("initializer", "Zeros", "Its first values."),
                           RegularizerArgument("regularizer"), ConstraintArgument("constraint")}),
          .min_inputs = 0,
          .max_inputs = 0,
          .build = BuildVariable};
}

}  // namespace cohort
