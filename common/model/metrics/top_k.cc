// top_k_categorical_accuracy of keras/src/metrics/accuracy_metrics.py.
#include <algorithm>

#include "common/model/losses/loss.h"
#include "common/model/metrics/metric.h"

namespace cohort {
namespace {

// `classes`: the class number of each row of the prediction.
absl::StatusOr<MetricValue> InTop(const Config& config, Expr prediction, Expr classes,
                                  Expr weight) {
  const int64_t size = prediction.type().dims.back().size;
  const Expr numbers = AsVector(Cast(classes, DType::kInt64));
  if (weight.valid()) {
    COHORT_ASSIGN_OR_RETURN(const Expr each, WeightLike(weight, Cast(classes, prediction.dtype())));
    weight = AsVector(each);
  }
  const Expr matches = InTopK(numbers, AsRows(prediction, size), config.Int("k"));
  return WeightedMean(Cast(matches, prediction.dtype()), weight);
}

// The predictions are the class numbers themselves, the best one first.
absl::StatusOr<MetricValue> InSortedIds(const Config& config, Expr ids, Expr classes, Expr weight) {
  const int64_t most = std::min(config.Int("k"), ids.type().dims.back().size);
  std::vector<Dim> dims = classes.type().dims;
  dims.push_back({1, 0});
  const Expr given = Reshape(Cast(classes, ids.dtype()), ReshapeDims(dims));
  const Expr is_there = Cast(Equal(given, Slice(ids, -1, 0, most)), ids.dtype());
  return WeightedMean(ReduceMax(is_there, {-1}), weight);
}

absl::StatusOr<MetricValue> OfClassNumbers(const Config& config, const MetricInput& input) {
  const Expr prediction = input.prediction.value;
  const std::vector<Dim> p = prediction.type().dims;
  std::vector<Dim> l = input.label.type().dims;
  if (l.size() == p.size() && l.back() == Dim{1, 0}) l.pop_back();
  if (l != std::vector<Dim>(p.begin(), p.end() - 1)) {
    return InvalidArgument(
        "the label is {}, but the prediction is {}: the label must be a class number for each row "
        "of the prediction",
        TypeToString(input.label.type()), TypeToString(prediction.type()));
  }
  COHORT_ASSIGN_OR_RETURN(const Expr weight, WeightWithoutMasked(input));
  if (!config.Bool("from_sorted_ids")) return InTop(config, prediction, input.label, weight);
  const bool same = input.label.type().dims == l;
  const Expr classes = same ? input.label : Reshape(input.label, ReshapeDims(l));
  return InSortedIds(config, prediction, classes, weight);
}

absl::StatusOr<MetricValue> OfOneHot(const Config& config, const MetricInput& input) {
  LayerOutput prediction = input.prediction;
  Expr label = input.label;
  COHORT_RETURN_IF_ERROR(FitLabel(&label, &prediction));
  COHORT_ASSIGN_OR_RETURN(const Expr weight, WeightWithoutMasked(input));
  return InTop(config, prediction.value, ArgMax(label), weight);
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
  return {
      .schema = MetricSchema(
          "SparseTopKCategoricalAccuracy", {}, "Share of the class numbers that are in the top k.",
          {K(), Bool("from_sorted_ids", "The predictions are class numbers, the best first.")
                    .Default(false)}),
      .make = OfClassNumbers,
      .higher_is_better = true};
}

}  // namespace cohort
