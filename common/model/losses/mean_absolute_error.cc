// MeanAbsoluteError (keras/src/losses/losses.py).
#include "common/graph/expr.h"
#include "common/model/losses/loss.h"

namespace cohort {

LossClass MeanAbsoluteErrorLoss() {
  return {
      .schema = LossSchema("MeanAbsoluteError", {"mae", "MAE"}, "mean(|label - prediction|)", {}),
      .elementwise = [](const Config&, LayerOutput prediction, Expr label) -> absl::StatusOr<Expr> {
        COHORT_RETURN_IF_ERROR(FitLabel(&label, &prediction));
        return ReduceMean(Abs(label - prediction.value), {-1});
      }};
}

}  // namespace cohort
