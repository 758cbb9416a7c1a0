// The loss that a function of a Python program computes.
#include "common/model/losses/loss.h"
#include "common/model/traced_function.h"

namespace cohort {
namespace {

absl::StatusOr<LossElements> ElementwiseTraced(const Config& config, LayerOutput prediction,
                                               Expr label) {
  COHORT_ASSIGN_OR_RETURN(const Expr loss,
                          CallTracedFunction(config.String("layers"), prediction, label));
  return Cast(loss, prediction.value.dtype());
}

}  // namespace

LossClass TracedLoss() {
  return {.schema = LossSchema("Traced", {}, "A function of a Python program.",
                               {TracedFunctionArgument()}),
          .elementwise = ElementwiseTraced};
}

}  // namespace cohort
