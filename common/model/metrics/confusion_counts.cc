// TruePositives, FalsePositives, TrueNegatives and FalseNegatives of
// keras/src/metrics/confusion_metrics.py.
#include "common/model/metrics/confusion.h"
#include "common/model/metrics/metric.h"

namespace cohort {
namespace {

absl::StatusOr<MetricValue> CountOf(const Config& config, const MetricInput& input,
                                    bool is_positive, bool is_predicted) {
  COHORT_ASSIGN_OR_RETURN(const Elements elements, ElementsOf(config, input));
  const Thresholds thresholds = ThresholdsOf(config, 0.5);
  const Expr p = thresholds.clips ? Clip(elements.p, 0, 1) * thresholds.scale : elements.p;
  const Expr labeled = is_positive ? elements.positive : 1.0 - elements.positive;
  MetricValue all;
  for (const double at : thresholds.at) {
    const Expr above = Cast(Greater(p, p.builder()->Scalar(at, p.dtype())), p.dtype());
    Expr counted = labeled * (is_predicted ? above : 1.0 - above);
    if (elements.weight.valid()) counted = counted * elements.weight;
    all.parts.push_back(SumOf(counted));
  }
  return all;
}

template <bool kPositive, bool kPredicted>
MetricClass MakeCount(std::string_view name, std::string_view doc) {
  return {.schema = MetricSchema(name, {}, doc, {ThresholdsArgument()}),
          .make =
              [](const Config& config, const MetricInput& input) {
                return CountOf(config, input, kPositive, kPredicted);
              },
          .higher_is_better = kPositive == kPredicted,
          .may_have_parts =
              [](const Config& config) { return config.Floats("thresholds").size() > 1; }};
}

}  // namespace

MetricClass TruePositivesMetric() {
  return MakeCount<true, true>("TruePositives", "The number of right positive predictions.");
}
MetricClass FalsePositivesMetric() {
  return MakeCount<false, true>("FalsePositives", "The number of wrong positive predictions.");
}
MetricClass TrueNegativesMetric() {
  return MakeCount<false, false>("TrueNegatives", "The number of right negative predictions.");
}
MetricClass FalseNegativesMetric() {
  return MakeCount<true, false>("FalseNegatives", "The number of wrong negative predictions.");
}

}  // namespace cohort
