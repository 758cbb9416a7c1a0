// CategoricalGeneralizedCrossEntropy (keras/src/losses/losses.py).
#include "common/graph/expr.h"
#include "common/model/losses/loss.h"

namespace cohort {
namespace {

absl::StatusOr<Expr> ElementwiseGeneralized(const Config& config, LayerOutput prediction,
                                            Expr label) {
  const double q = config.Float("q");
  if (!(q > 0 && q < 1)) return InvalidArgument("q must lie between 0 and 1, and is {}", q);
  const Expr p = prediction.value;
  COHORT_ASSIGN_OR_RETURN(const Expr truth, OneHotOf(label, p.type()));
  return (1.0 - Pow(ReduceSum(p * truth, {-1}), q)) / q;
}

}  // namespace

LossClass CategoricalGeneralizedCrossEntropyLoss() {
  return {.schema = LossSchema(
              "CategoricalGeneralizedCrossEntropy", {},
              "(1 - p^q) / q with the probability p of the right class: robust to wrong labels.",
              {Float("q", "Near 0: as cross entropy. Near 1: as the mean absolute error.")
                   .Default(0.5)
                   .Between(0, 1)}),
          .label = LossClass::Label::kClassNumber,
          .elementwise = ElementwiseGeneralized};
}

}  // namespace cohort
