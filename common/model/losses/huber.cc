// Huber (keras/src/losses/losses.py).
#include "common/graph/expr.h"
#include "common/model/losses/loss.h"

namespace cohort {
namespace {

absl::StatusOr<Expr> ElementwiseHuber(const Config& config, LayerOutput prediction, Expr label) {
  COHORT_RETURN_IF_ERROR(FitLabel(&label, &prediction));
  const double delta = config.Float("delta");
  const Expr error = prediction.value - label;
  const Expr size = Abs(error);
  const Expr is_large = Greater(size, size.builder()->Scalar(delta, size.dtype()));
  return ReduceMean(Select(is_large, delta * size - 0.5 * delta * delta, 0.5 * Square(error)),
                    {-1});
}

}  // namespace

LossClass HuberLoss() {
  return {.schema = LossSchema("Huber", {"huber_loss"},
                               "Half of the squared error; linear for errors above delta.",
                               {Float("delta", "Where the loss becomes linear.").Default(1.0)}),
          .elementwise = ElementwiseHuber};
}

}  // namespace cohort
