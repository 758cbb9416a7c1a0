// Precision and Recall of keras/src/metrics/confusion_metrics.py, with one threshold. The state is
// a mean: the true positives are its total, and what they are divided by is its count.
#include "common/model/losses/loss.h"
#include "common/model/metrics/metric.h"

namespace cohort {
namespace {

struct Binary {
  Expr positive;   // 1 for a label that is not 0
  Expr predicted;  // 1 for a prediction above the threshold
};

// Element `class_id` of the last axis.
absl::StatusOr<Expr> OneClass(Expr x, int64_t class_id) {
  const int64_t axis = static_cast<int64_t>(x.rank()) - 1;
  const int64_t classes = axis < 1 ? 0 : x.type().dims.back().size;
  if (class_id < classes) return Slice(x, axis, class_id, 1);
  return InvalidArgument("there is no class_id {}: the prediction is {}", class_id,
                         TypeToString(x.type()));
}

absl::StatusOr<Binary> MakeBinary(const Config& config, LayerOutput prediction, Expr label) {
  const std::vector<double> thresholds = config.Floats("thresholds");
  if (thresholds.size() > 1) {
    return Unimplemented(
        "several `thresholds` are not supported yet: use one metric for each, with its own `name`");
  }
  COHORT_RETURN_IF_ERROR(FitLabel(&label, &prediction));
  Expr p = prediction.value;
  if (!config.IsNone("class_id")) {
    COHORT_ASSIGN_OR_RETURN(p, OneClass(p, config.Int("class_id")));
    COHORT_ASSIGN_OR_RETURN(label, OneClass(label, config.Int("class_id")));
  }
  const double threshold = thresholds.empty() ? 0.5 : thresholds[0];
  const Expr above = Greater(p, p.builder()->Scalar(threshold, p.dtype()));
  return Binary{NonZero(label), Cast(above, p.dtype())};
}

absl::StatusOr<MetricValue> Precision(const Config& config, LayerOutput prediction, Expr label) {
  COHORT_ASSIGN_OR_RETURN(const Binary binary, MakeBinary(config, prediction, label));
  return MeanOf(ReduceSum(binary.positive * binary.predicted), ReduceSum(binary.predicted));
}

absl::StatusOr<MetricValue> Recall(const Config& config, LayerOutput prediction, Expr label) {
  COHORT_ASSIGN_OR_RETURN(const Binary binary, MakeBinary(config, prediction, label));
  return MeanOf(ReduceSum(binary.positive * binary.predicted), ReduceSum(binary.positive));
}

std::vector<Argument> Arguments() {
  return {Floats("thresholds", "One number: a prediction above it is positive. None: 0.5.")
              .Between(0, 1)
              .Optional(),
          Int("class_id", "The only class that counts. None: all.").AtLeast(0).Optional(),
          Planned("top_k")};
}

}  // namespace

MetricClass PrecisionMetric() {
  return {.schema = MetricSchema("Precision", {},
                                 "Share of the positive predictions that are right.", Arguments()),
          .make = Precision,
          .higher_is_better = true};
}

MetricClass RecallMetric() {
  return {.schema = MetricSchema("Recall", {}, "Share of the positive labels that are predicted.",
                                 Arguments()),
          .make = Recall,
          .higher_is_better = true};
}

}  // namespace cohort
