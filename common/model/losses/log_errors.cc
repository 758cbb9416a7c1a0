// LogCosh, MeanAbsolutePercentageError and MeanSquaredLogarithmicError
// (keras/src/losses/losses.py).
#include <numbers>

#include "common/graph/expr.h"
#include "common/model/losses/loss.h"

namespace cohort {
namespace {

Expr AtLeastEpsilon(Expr x) {
  return Maximum(x, x.builder()->Scalar(kProbabilityEpsilon, x.dtype()));
}

// log(2) as Keras has it in every dtype: rounded to float32.
constexpr double kLog2 = static_cast<float>(std::numbers::ln2);

absl::StatusOr<Expr> ElementwiseLogCosh(const Config&, LayerOutput prediction, Expr label) {
  COHORT_RETURN_IF_ERROR(FitLabel(&label, &prediction));
  const Expr error = prediction.value - label;
  return ReduceMean(error + Softplus(error * -2.0) - kLog2, {-1});
}

absl::StatusOr<Expr> ElementwisePercentage(const Config&, LayerOutput prediction, Expr label) {
  COHORT_RETURN_IF_ERROR(FitLabel(&label, &prediction));
  return 100.0 * ReduceMean(Abs((label - prediction.value) / AtLeastEpsilon(Abs(label))), {-1});
}

absl::StatusOr<Expr> ElementwiseLogarithmic(const Config&, LayerOutput prediction, Expr label) {
  COHORT_RETURN_IF_ERROR(FitLabel(&label, &prediction));
  const Expr p = Log(AtLeastEpsilon(prediction.value) + 1.0);
  const Expr y = Log(AtLeastEpsilon(label) + 1.0);
  return ReduceMean(Square(p - y), {-1});
}

}  // namespace

LossClass LogCoshLoss() {
  return {.schema = LossSchema("LogCosh", {"logcosh"}, "mean(log(cosh(prediction - label))).", {}),
          .elementwise = ElementwiseLogCosh};
}

LossClass MeanAbsolutePercentageErrorLoss() {
  return {.schema = LossSchema("MeanAbsolutePercentageError", {"mape", "MAPE"},
                               "100 * mean(|label - prediction| / |label|).", {}),
          .elementwise = ElementwisePercentage};
}

LossClass MeanSquaredLogarithmicErrorLoss() {
  return {.schema = LossSchema("MeanSquaredLogarithmicError", {"msle", "MSLE"},
                               "mean((log(label + 1) - log(prediction + 1))^2).", {}),
          .elementwise = ElementwiseLogarithmic};
}

}  // namespace cohort
