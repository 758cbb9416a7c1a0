// SensitivityAtSpecificity, SpecificityAtSensitivity, PrecisionAtRecall and RecallAtPrecision of
// keras/src/metrics/confusion_metrics.py.
#include "common/metrics/metric_proto.h"
#include "common/model/metrics/confusion.h"
#include "common/model/metrics/metric.h"

namespace cohort {
namespace {

// The largest `rate` at the thresholds where `bounded`, which is the argument's name too, reaches
// the argument.
MetricClass MakeRate(std::string_view name, std::string_view rate, std::string_view bounded) {
  constexpr auto kMost = static_cast<double>(MetricLimits().max_elements / 2 - 2);
  const std::string least = fmt::format("The least {}.", bounded);
  return {
      .schema = MetricSchema(
          name, {}, fmt::format("The best {} of those thresholds with this {}.", rate, bounded),
          {Float(bounded, least).Between(0, 1),
           Int("num_thresholds", "The thresholds that are tried.").Default(200).Between(1, kMost),
           ClassIdArgument()}),
      .make = [rate = std::string(rate), bounded = std::string(bounded)](
                  const Config& config, const MetricInput& input) -> absl::StatusOr<MetricValue> {
        COHORT_ASSIGN_OR_RETURN(const Elements elements, ElementsOf(config, input));
        const int64_t n = config.Int("num_thresholds");
        const ConfusionCounts counts =
            CountAbove(elements, n == 1 ? Thresholds{.at = {0.5}} : EvenThresholds(n));
        MetricValue best = ValueOf("Best", {{"true_positives", counts.true_positives},
                                            {"false_positives", counts.false_positives},
                                            {"positives", counts.positives},
                                            {"negatives", counts.negatives}});
        auto& arguments = *best.finalizer.mutable_config();
        arguments["rate"] = ConfigOf(std::string_view(rate));
        arguments["bounded"] = ConfigOf(std::string_view(bounded));
        arguments["bound"] = ConfigOf(config.Float(bounded));
        return best;
      },
      .higher_is_better = true};
}

}  // namespace

MetricClass SensitivityAtSpecificityMetric() {
  return MakeRate("SensitivityAtSpecificity", "sensitivity", "specificity");
}
MetricClass SpecificityAtSensitivityMetric() {
  return MakeRate("SpecificityAtSensitivity", "specificity", "sensitivity");
}
MetricClass PrecisionAtRecallMetric() {
  return MakeRate("PrecisionAtRecall", "precision", "recall");
}
MetricClass RecallAtPrecisionMetric() {
  return MakeRate("RecallAtPrecision", "recall", "precision");
}

}  // namespace cohort
