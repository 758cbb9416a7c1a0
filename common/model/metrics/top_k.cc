// top_k_categorical_accuracy of keras/src/metrics/accuracy_metrics.py.
#include "common/model/losses/loss.h"
#include "common/model/metrics/metric.h"

namespace cohort {
namespace {

// `classes`: the class number of each row of the prediction.
MetricValue InTop(const Config& config, Expr prediction, Expr classes) {
  const int64_t size = prediction.type().dims.back().size;
  const Expr numbers = AsVector(Cast(classes, DType::kInt64));
  return MeanOf(InTopK(numbers, AsRows(prediction, size), config.Int("k")), prediction.dtype());
}

absl::StatusOr<MetricValue> OfClassNumbers(const Config& config, LayerOutput prediction,
                                           Expr label) {
  const std::vector<Dim> p = prediction.value.type().dims;
  std::vector<Dim> l = label.type().dims;
  if (l.size() == p.size() && l.back() == Dim{1, 0}) l.pop_back();
  if (l != std::vector<Dim>(p.begin(), p.end() - 1)) {
    return InvalidArgument(
        "the label is {}, but the prediction is {}: the label must be a class number for each row "
        "of the prediction",
        TypeToString(label.type()), TypeToString(prediction.value.type()));
  }
  return InTop(config, prediction.value, label);
}

absl::StatusOr<MetricValue> OfOneHot(const Config& config, LayerOutput prediction, Expr label) {
  COHORT_RETURN_IF_ERROR(FitLabel(&label, &prediction));
  return InTop(config, prediction.value, ArgMax(label));
}

Argument K() { return Int("k", "The number of predictions that count.").Default(5).AtLeast(1); }

}  // namespace

MetricClass TopKCategoricalAccuracyMetric() {
  return {.schema = MetricSchema("TopKCategoricalAccuracy", {},
                                 "Share of the one-hot labels whose class is in the top k.", {K()}),
          .make = OfOneHot,
          .higher_is_better = true};
}

MetricClass SparseTopKCategoricalAccuracyMetric() {
  return {.schema = MetricSchema("SparseTopKCategoricalAccuracy", {},
                                 "Share of the class numbers that are in the top k.",
                                 {K(), Planned(Bool("from_sorted_ids", "").Default(false))}),
          .make = OfClassNumbers,
          .higher_is_better = true};
}

}  // namespace cohort
