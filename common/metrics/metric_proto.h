#ifndef COHORT_COMMON_METRICS_METRIC_PROTO_H_
#define COHORT_COMMON_METRICS_METRIC_PROTO_H_

#include <absl/status/status.h>
#include <google/protobuf/repeated_field.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "common/metrics/metric_state.h"

namespace cohort::v1 {
class MetricValue;
}

namespace cohort {

// The limits of the state of one metric, and of one message with metrics.
struct MetricLimits {
  size_t max_name_bytes = 4096;  // for a metric or an accumulator
  size_t max_finalizer_bytes = 65536;
  size_t max_accumulators = 64;
  size_t max_elements = 16384;  // all accumulators of a metric together
  size_t max_metrics = 1024;
  size_t max_message_elements = size_t{1} << 20;  // all metrics together
};

using MetricValues = google::protobuf::RepeatedPtrField<v1::MetricValue>;

// Checks metrics that come from a wire or a disk. The functions below rely on it. Errors:
// InvalidArgument naming the metric.
absl::Status CheckMetricValues(const MetricValues& metrics);

// Converts a checked value; the short form of a mean becomes two accumulators.
MetricState MetricFromProto(const v1::MetricValue& value);
// Folds a value into a state, as FoldMetric(MetricFromProto(value), into); allocates nothing for a
// mean. Returns false if a sum of the value is infinite or NaN.
bool FoldMetricValue(const v1::MetricValue& value, MetricState* into);
std::vector<MetricState> MetricsFromProto(const MetricValues& values);
// Writes a mean in its short form.
void MetricToProto(const MetricState& state, v1::MetricValue* value);
void MetricsToProto(std::span<const MetricState> states, MetricValues* values);

}  // namespace cohort

#endif  // COHORT_COMMON_METRICS_METRIC_PROTO_H_
