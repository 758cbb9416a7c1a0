// MeanSquaredError (keras/src/losses/losses.py).
#include "common/graph/expr.h"
#include "common/model/losses/loss.h"

namespace cohort {

LossClass MeanSquaredErrorLoss() {
  return {
      .schema = LossSchema("MeanSquaredError", {"mse", "MSE"}, "mean((label - prediction)^2)", {}),
      .elementwise = [](const Config&, LayerOutput prediction, Expr label) -> absl::StatusOr<Expr> {
        COHORT_RETURN_IF_ERROR(FitLabel(&label, &prediction));
        return ReduceMean(Square(label - prediction.value), {-1});
      }};
}

}  // namespace cohort
