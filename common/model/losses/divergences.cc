// KLDivergence and Poisson (keras/src/losses/losses.py).
#include "common/graph/expr.h"
#include "common/model/losses/loss.h"

namespace cohort {
namespace {

absl::StatusOr<Expr> ElementwiseKlDivergence(const Config&, LayerOutput prediction, Expr label) {
  COHORT_RETURN_IF_ERROR(FitLabel(&label, &prediction));
  const Expr y = Clip(label, kProbabilityEpsilon, 1);
  const Expr p = Clip(prediction.value, kProbabilityEpsilon, 1);
  return ReduceSum(y * Log(y / p), {-1});
}

absl::StatusOr<Expr> ElementwisePoisson(const Config&, LayerOutput prediction, Expr label) {
  COHORT_RETURN_IF_ERROR(FitLabel(&label, &prediction));
  const Expr p = prediction.value;
  return ReduceMean(p - label * Log(p + kProbabilityEpsilon), {-1});
}

}  // namespace

LossClass KLDivergenceLoss() {
  return {.schema = LossSchema("KLDivergence", {"kld", "KLD", "kullback_leibler_divergence"},
                               "sum(label * log(label / prediction)) of two distributions.", {}),
          .elementwise = ElementwiseKlDivergence};
}

LossClass PoissonLoss() {
  return {.schema = LossSchema("Poisson", {}, "mean(prediction - label * log(prediction)).", {}),
          .elementwise = ElementwisePoisson};
}

}  // namespace cohort
