// The registry of metrics.
#include "common/model/metrics/metric.h"
#include "common/model/metrics/metric_list.h"

namespace cohort {

#define COHORT_DECLARE(name) MetricClass name##Metric();
COHORT_METRICS(COHORT_DECLARE)
#undef COHORT_DECLARE

namespace {

// The classes of keras/src/metrics that take no labels, which a job's metrics have.
constexpr std::string_view kPlannedMetrics = "Mean MeanMetricWrapper Sum mean sum";

}  // namespace

ClassRegistry<MetricClass>& Metrics() {
#define COHORT_CALL(name) name##Metric(),
  static auto& metrics =
      *new ClassRegistry<MetricClass>("metric", SchemaSet::Spelling::kKeras,
                                      std::string(kPlannedMetrics), {COHORT_METRICS(COHORT_CALL)});
#undef COHORT_CALL
  return metrics;
}

}  // namespace cohort
