// Precision and Recall of keras/src/metrics/confusion_metrics.py. The state of each threshold is a
// mean: the true positives are its total, and what they are divided by is its count.
#include "common/model/losses/loss.h"
#include "common/model/metrics/confusion.h"
#include "common/model/metrics/metric.h"

namespace cohort {
namespace {

// `of_predicted`: divided by what is predicted, else by what is labeled.
absl::StatusOr<MetricValue> Share(const Config& config, const MetricInput& input,
                                  bool of_predicted) {
  COHORT_ASSIGN_OR_RETURN(const Elements elements, ElementsOf(config, input));
  const Thresholds thresholds = ThresholdsOf(config, config.Has("top_k") ? kNoPrediction : 0.5);
  const Expr p = thresholds.clips ? Clip(elements.p, 0, 1) * thresholds.scale : elements.p;
  MetricValue all;
  for (const double at : thresholds.at) {
    const Expr predicted = Cast(Greater(p, p.builder()->Scalar(at, p.dtype())), p.dtype());
    Expr right = elements.positive * predicted;
    Expr whole = of_predicted ? predicted : elements.positive;
    if (elements.weight.valid()) {
      right = right * elements.weight;
      whole = whole * elements.weight;
    }
    all.parts.push_back(RatioOf(ReduceSum(right), ReduceSum(whole)));
  }
  return all;
}

absl::StatusOr<MetricValue> Precision(const Config& config, const MetricInput& input) {
  return Share(config, input, true);
}

absl::StatusOr<MetricValue> Recall(const Config& config, const MetricInput& input) {
  return Share(config, input, false);
}

std::vector<Argument> Arguments() {
  return {ThresholdsArgument(), ClassIdArgument(),
          Int("top_k", "Only the k largest predictions of a record count. None: all.")
              .AtLeast(1)
              .Optional()};
}

bool HasThresholds(const Config& config) { return config.Floats("thresholds").size() > 1; }

}  // namespace

MetricClass PrecisionMetric() {
  return {.schema = MetricSchema("Precision", {},
                                 "Share of the positive predictions that are right.", Arguments()),
          .make = Precision,
          .higher_is_better = true,
          .may_have_parts = HasThresholds};
}

MetricClass RecallMetric() {
  return {.schema = MetricSchema("Recall", {}, "Share of the positive labels that are predicted.",
                                 Arguments()),
          .make = Recall,
          .higher_is_better = true,
          .may_have_parts = HasThresholds};
}

}  // namespace cohort
