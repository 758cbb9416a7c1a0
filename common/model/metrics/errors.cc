// keras/src/metrics/regression_metrics.py.
#include "common/model/losses/loss.h"
#include "common/model/metrics/metric.h"

namespace cohort {
namespace {

// Label minus prediction.
absl::StatusOr<Expr> Difference(const MetricInput& input) {
  LayerOutput prediction = input.prediction;
  Expr label = input.label;
  COHORT_RETURN_IF_ERROR(FitLabel(&label, &prediction));
  return label - prediction.value;
}

absl::StatusOr<MetricValue> AbsoluteError(const Config&, const MetricInput& input) {
  COHORT_ASSIGN_OR_RETURN(const Expr difference, Difference(input));
  return MeanOf(Abs(difference), input);
}

absl::StatusOr<MetricValue> SquaredError(const Config&, const MetricInput& input) {
  COHORT_ASSIGN_OR_RETURN(const Expr difference, Difference(input));
  return MeanOf(Square(difference), input);
}

absl::StatusOr<MetricValue> RootOfSquaredError(const Config& config, const MetricInput& input) {
  MetricInput unmasked = input;  // Keras' class is no MeanMetricWrapper
  unmasked.prediction.mask = {};
  COHORT_ASSIGN_OR_RETURN(MetricValue squared, SquaredError(config, unmasked));
  squared.finalizer.set_class_name("RootMean");
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
