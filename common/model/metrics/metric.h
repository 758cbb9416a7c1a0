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

// What a metric sees of a batch.
struct MetricInput {
  LayerOutput prediction;
  Expr label;
  Expr weight;  // weighs the records, as AlignWeight takes it; none: all count as 1
  // A column of the records by its name. Errors: InvalidArgument. Null: there are no columns.
  std::function<absl::StatusOr<Expr>(const std::string& name)> column = nullptr;
};

// A metric of a batch as expressions: what the examples add to its accumulators, and the finalizer
// (common/metrics/finalizers.h) that computes its value from them.
struct MetricValue {
  v1::ClassConfig finalizer;
  std::vector<MetricExpr> accumulators;
  // Instead, of a metric with a list of numbers, as that of each threshold: each number.
  std::vector<MetricValue> parts;
};

// A Keras metric: its arguments, and the function that computes it over a batch. Each has a file of
// its own, with the line of metric_list.h that names it.
struct MetricClass {
  ClassSchema schema;
  // Prediction and label are valid. Errors: InvalidArgument if label, prediction or weight do not
  // match.
  std::function<absl::StatusOr<MetricValue>(const Config& config, const MetricInput& input)> make;
  bool higher_is_better = false;  // Keras' `_direction`; it decides the mode `auto` of `keep_best`
  // True if `make` may return several parts. None: it never does.
  bool (*may_have_parts)(const Config& config) = nullptr;

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
// `default_name` "": the name of the class in snake case.
ClassSchema MetricSchema(std::string_view name, std::vector<std::string> aliases,
                         std::string_view doc, std::vector<Argument> arguments,
                         std::string_view default_name = "");

// Computes the metric `config`, which is complete. No value if prediction or label has none.
// Errors: InvalidArgument.
absl::StatusOr<MetricValue> MakeMetric(const v1::ClassConfig& config, const MetricInput& input);

// Adds a metric to a program. The parts of one with several numbers have the names "<name>_0",
// "<name>_1" and so on.
void AddMetric(const std::string& name, const MetricValue& value, ProgramBuilder* builder);

// total / count of scalars.
MetricValue RatioOf(Expr total, Expr count);
// The mean of all elements, weighted by those of their records, without the steps that the
// prediction masks (MeanMetricWrapper of keras/src/metrics/reduction_metrics.py).
absl::StatusOr<MetricValue> MeanOf(Expr elements, const MetricInput& input);
// The mean of `matches` (bool), computed in `dtype`.
absl::StatusOr<MetricValue> MeanOf(Expr matches, DType dtype, const MetricInput& input);
// The mean of all elements; `weight` may be none.
absl::StatusOr<MetricValue> WeightedMean(Expr elements, Expr weight);
// The weights, 0 at the steps that the prediction masks; none without weights and a mask.
absl::StatusOr<Expr> WeightWithoutMasked(const MetricInput& input);

// A value without parts, from a finalizer's name.
MetricValue ValueOf(std::string_view finalizer, std::vector<MetricExpr> accumulators);
// The sum of all elements as the metric's value.
MetricValue SumOf(Expr elements);

// The weight of each element of `like`, in its shape and dtype. `weight` is valid.
absl::StatusOr<Expr> WeightLike(Expr weight, Expr like);

// 1 for an element that is not 0, else 0, in the same dtype.
Expr NonZero(Expr x);
// Reshapes to [any, size], or to [any].
Expr AsRows(Expr x, int64_t size);
Expr AsVector(Expr x);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_METRICS_METRIC_H_
