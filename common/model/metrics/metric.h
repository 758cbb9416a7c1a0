#ifndef COHORT_COMMON_MODEL_METRICS_METRIC_H_
#define COHORT_COMMON_MODEL_METRICS_METRIC_H_

#include <absl/status/statusor.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {

// A metric of a batch as expressions: what the examples add to its accumulators, and the finalizer
// (common/metrics/finalizers.h) that computes its value from them.
struct MetricValue {
  v1::ClassConfig finalizer;
  std::vector<MetricExpr> accumulators;
  Expr elements = {};  // those whose mean it is; no value: it is another kind of metric
};

// A Keras metric: its arguments, and the function that computes it over a batch. Each has a file of
// its own, with the line of metric_list.h that names it.
struct MetricClass {
  ClassSchema schema;
  // Both values are valid. Errors: InvalidArgument if label and prediction do not match.
  std::function<absl::StatusOr<MetricValue>(const Config& config, LayerOutput prediction,
                                            Expr label)>
      make;
  bool higher_is_better = false;  // Keras' `_direction`; it decides the mode `auto` of `keep_best`

  // Error: InvalidArgument if the schema was not made by MetricSchema, or if there is no `make`.
  absl::Status CheckClass() const {
    if (schema.Find("name") == nullptr) {
      return InvalidArgument(
          "the metric {} has no argument `name`: make its schema by MetricSchema", schema.name);
    }
    if (make) return absl::OkStatus();
    return InvalidArgument("the metric {} has no function `make`", schema.name);
  }
};

// All metrics. A name may be Keras' class or function: BinaryAccuracy, binary_accuracy.
ClassRegistry<MetricClass>& Metrics();

// Makes the schema of a metric: its own arguments, and those that Keras gives to every metric.
ClassSchema MetricSchema(std::string_view name, std::vector<std::string> aliases,
                         std::string_view doc, std::vector<Argument> arguments);

// Computes the metric `config`, which is complete. No value if prediction or label has none. A mean
// leaves out the steps that the prediction masks (MeanMetricWrapper of
// keras/src/metrics/reduction_metrics.py). Errors: InvalidArgument.
absl::StatusOr<MetricValue> MakeMetric(const v1::ClassConfig& config, LayerOutput prediction,
                                       Expr label);

// The mean total / count of scalars.
MetricValue MeanOf(Expr total, Expr count);
// The mean of all elements.
MetricValue MeanOf(Expr elements);
// The mean of `matches` (bool), computed in `dtype`.
MetricValue MeanOf(Expr matches, DType dtype);

// 1 for an element that is not 0, else 0, in the same dtype.
Expr NonZero(Expr x);
// Reshapes to [any, size], or to [any].
Expr AsRows(Expr x, int64_t size);
Expr AsVector(Expr x);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_METRICS_METRIC_H_
