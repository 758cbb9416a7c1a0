// Metrics of predicted rates, as of clicks. Keras has none of them: He et al., "Practical Lessons
// from Predicting Clicks on Ads at Facebook", 2014.
#include "common/model/losses/loss.h"
#include "common/model/metrics/metric.h"

namespace cohort {
namespace {

// 1 for labels that are 1, and the probability that the prediction gives them.
struct Rates {
  Expr y, p, weight;
};

absl::StatusOr<Rates> RatesOf(const Config& config, const MetricInput& input) {
  LayerOutput prediction = input.prediction;
  Rates rates{input.label, {}, {}};
  COHORT_RETURN_IF_ERROR(FitLabel(&rates.y, &prediction));
  rates.p = config.Bool("from_logits") ? Sigmoid(prediction.value) : prediction.value;
  rates.weight = BroadcastLike(rates.y.builder()->Scalar(1, rates.y.dtype()), rates.y);
  if (!input.weight.valid()) return rates;
  COHORT_ASSIGN_OR_RETURN(rates.weight, WeightLike(input.weight, rates.y));
  return rates;
}

absl::StatusOr<MetricValue> Calibration(const Config& config, const MetricInput& input) {
  COHORT_ASSIGN_OR_RETURN(const Rates rates, RatesOf(config, input));
  return RatioOf(ReduceSum(rates.p * rates.weight), ReduceSum(rates.y * rates.weight));
}

absl::StatusOr<MetricValue> NormalizedEntropy(const Config& config, const MetricInput& input) {
  COHORT_ASSIGN_OR_RETURN(const Rates rates, RatesOf(config, input));
  const Expr p = Clip(rates.p, kProbabilityEpsilon, 1.0 - kProbabilityEpsilon);
  const Expr entropy = -(rates.y * Log(p) + (1.0 - rates.y) * Log(1.0 - p));
  return ValueOf("NormalizedEntropy", {{kTotal, ReduceSum(entropy * rates.weight)},
                                       {kCount, ReduceSum(rates.weight)},
                                       {"positives", ReduceSum(rates.y * rates.weight)}});
}

}  // namespace

MetricClass CalibrationMetric() {
  return {.schema = MetricSchema("Calibration", {},
                                 "The sum of predicted probabilities divided by that of labels; 1 "
                                 "is best. Not in Keras.",
                                 {FromLogitsArgument()}),
          .make = Calibration};
}

MetricClass NormalizedEntropyMetric() {
  return {.schema = MetricSchema("NormalizedEntropy", {},
                                 "Binary cross entropy divided by that of the mean label; below 1 "
                                 "is better. Not in Keras.",
                                 {FromLogitsArgument()}),
          .make = NormalizedEntropy};
}

}  // namespace cohort
