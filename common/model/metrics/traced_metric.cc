// The mean of what a function of a Python program computes (MeanMetricWrapper of
// keras/src/metrics/reduction_metrics.py).
#include "common/model/metrics/metric.h"
#include "common/model/traced_function.h"

namespace cohort {
namespace {

absl::StatusOr<MetricValue> MeanOfTraced(const Config& config, const MetricInput& input) {
  COHORT_ASSIGN_OR_RETURN(const Expr values, CallTracedFunction(config.String("layers"),
                                                                input.prediction, input.label));
  return MeanOf(Cast(values, input.prediction.value.dtype()), input);
}

}  // namespace

MetricClass TracedMetric() {
  return {.schema = MetricSchema("Traced", {}, "The mean of a function of a Python program.",
                                 {TracedFunctionArgument()}),
          .make = MeanOfTraced};
}

}  // namespace cohort
