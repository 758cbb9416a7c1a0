// keras/src/metrics/regression_metrics.py.
#include "common/model/losses/loss.h"
#include "common/model/metrics/metric.h"

namespace cohort {
namespace {

// Label minus prediction.
absl::StatusOr<Expr> Difference(LayerOutput prediction, Expr label) {
  COHORT_RETURN_IF_ERROR(FitLabel(&label, &prediction));
  return label - prediction.value;
}

absl::StatusOr<MetricValue> AbsoluteError(const Config&, LayerOutput prediction, Expr label) {
  COHORT_ASSIGN_OR_RETURN(const Expr difference, Difference(prediction, label));
  return MeanOf(Abs(difference));
}

absl::StatusOr<MetricValue> SquaredError(const Config&, LayerOutput prediction, Expr label) {
  COHORT_ASSIGN_OR_RETURN(const Expr difference, Difference(prediction, label));
  return MeanOf(Square(difference));
}

absl::StatusOr<MetricValue> RootOfSquaredError(const Config& config, LayerOutput prediction,
                                               Expr label) {
  COHORT_ASSIGN_OR_RETURN(MetricValue squared, SquaredError(config, prediction, label));
  squared.finalizer.set_class_name("RootMean");
  squared.elements = {};  // Keras' class is no MeanMetricWrapper
  return squared;
}

}  // namespace

MetricClass MeanAbsoluteErrorMetric() {
  return {.schema = MetricSchema("MeanAbsoluteError", {"mae", "MAE"},
                                 "Mean absolute difference of label and prediction.", {}),
          .make = AbsoluteError};
}

MetricClass MeanSquaredErrorMetric() {
  return {.schema = MetricSchema("MeanSquaredError", {"mse", "MSE"},
                                 "Mean squared difference of label and prediction.", {}),
          .make = SquaredError};
}

MetricClass RootMeanSquaredErrorMetric() {
  return {.schema = MetricSchema("RootMeanSquaredError", {},
                                 "Square root of the mean squared error.", {}),
          .make = RootOfSquaredError};
}

}  // namespace cohort
