// CosineSimilarity (keras/src/metrics/regression_metrics.py), PearsonCorrelation and
// ConcordanceCorrelation (keras/src/metrics/correlation_metrics.py): means over records.
#include "common/model/losses/loss.h"
#include "common/model/metrics/metric.h"

namespace cohort {
namespace {

struct Pair {
  Expr y, p;
  int64_t axis = 0;
};

absl::StatusOr<Pair> PairOf(const Config& config, const MetricInput& input) {
  LayerOutput prediction = input.prediction;
  Expr y = input.label;
  COHORT_RETURN_IF_ERROR(FitLabel(&y, &prediction));
  const auto rank = static_cast<int64_t>(y.rank());
  int64_t axis = config.Int("axis");
  if (axis < 0) axis += rank;
  if (axis < 1 || axis >= rank) {
    return InvalidArgument("axis {} must be an axis of {} other than the batch", config.Int("axis"),
                           TypeToString(y.type()));
  }
  return Pair{y, prediction.value, axis};
}

// The values minus their mean along the axis.
Expr Centered(Expr x, int64_t axis) { return x - ReduceMean(x, {axis}, true); }

absl::StatusOr<MetricValue> Pearson(const Config& config, const MetricInput& input) {
  COHORT_ASSIGN_OR_RETURN(const Pair pair, PairOf(config, input));
  const auto scaled = [axis = pair.axis](Expr x) {
    const Expr c = Centered(x, axis);
    return c / Sqrt(ReduceMean(Square(Centered(c, axis)), {axis}, true));
  };
  const Expr y = scaled(pair.y);
  return MeanOf(ReduceMean(y * scaled(pair.p), {pair.axis}), input);
}

absl::StatusOr<MetricValue> Concordance(const Config& config, const MetricInput& input) {
  COHORT_ASSIGN_OR_RETURN(const Pair pair, PairOf(config, input));
  const int64_t axis = pair.axis;
  const auto variance = [axis](Expr x) {
    return ReduceMean(Square(Centered(Centered(x, axis), axis)), {axis}, true);
  };
  const Expr y_mean = ReduceMean(pair.y, {axis}, true), p_mean = ReduceMean(pair.p, {axis}, true);
  // As Keras 3.15, which subtracts the mean of the predictions from both.
  const Expr product = (pair.y - p_mean) * (pair.p - p_mean);
  const Expr norm = variance(pair.y) + variance(pair.p) + Square(y_mean - p_mean);
  return MeanOf(ReduceMean(2.0 * product / (norm + kProbabilityEpsilon), {axis}), input);
}

absl::StatusOr<MetricValue> Cosine(const Config& config, const MetricInput& input) {
  COHORT_ASSIGN_OR_RETURN(const Expr cosine, CosineOf(config, input.prediction, input.label));
  return MeanOf(cosine, input);
}

Argument VectorAxis() { return Int("axis", "The axis of the vectors.").Default(-1); }

}  // namespace

MetricClass CosineSimilarityMetric() {
  return {.schema =
              MetricSchema("CosineSimilarity", {},
                           "The cosine of the angle between label and prediction.", {VectorAxis()}),
          .make = Cosine,
          .higher_is_better = true};
}

MetricClass PearsonCorrelationMetric() {
  return {.schema =
              MetricSchema("PearsonCorrelation", {},
                           "The correlation of label and prediction of a record.", {VectorAxis()}),
          .make = Pearson,
          .higher_is_better = true};
}

MetricClass ConcordanceCorrelationMetric() {
  return {.schema =
              MetricSchema("ConcordanceCorrelation", {},
                           "The concordance of label and prediction of a record.", {VectorAxis()}),
          .make = Concordance,
          .higher_is_better = true};
}

}  // namespace cohort
