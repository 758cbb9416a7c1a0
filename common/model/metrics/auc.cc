// AUC of keras/src/metrics/confusion_metrics.py.
//
// The thresholds are those between 0 and 1, with one below 0 and one above 1 that Keras adds. Every
// prediction exceeds the lowest threshold, so the counts there are those of all positive and all
// negative labels, and false negatives and true negatives follow from them.
#include <algorithm>
#include <cmath>

#include "common/metrics/metric_proto.h"
#include "common/model/losses/loss.h"
#include "common/model/metrics/metric.h"

namespace cohort {
namespace {

// A prediction p exceeds threshold i if p * scale > at[i], computed in the dtype of p.
struct Thresholds {
  std::vector<double> at;  // ascending
  double scale = 1;
};

// i / (n - 1). Keras counts a prediction p in bucket ceil(p (n - 1)) - 1, so p exceeds threshold i
// exactly if p (n - 1) > i.
Thresholds Even(int64_t n) {
  Thresholds even{{-1}, static_cast<double>(n - 1)};
  for (int64_t i = 1; i < n; ++i) even.at.push_back(static_cast<double>(i));
  return even;
}

// is_evenly_distributed_thresholds of keras/src/metrics/metrics_utils.py.
bool IsEven(const std::vector<double>& at) {
  for (size_t i = 0; i < at.size(); ++i) {
    const double even = static_cast<double>(i) / static_cast<double>(at.size() - 1);
    if (std::abs(at[i] - even) > kProbabilityEpsilon + 1e-5 * even) return false;
  }
  return at.size() > 2;
}

Thresholds ThresholdsOf(const Config& config) {
  if (config.IsNone("thresholds")) return Even(config.Int("num_thresholds"));
  std::vector<double> at = config.Floats("thresholds");
  at.insert(at.end(), {0, 1});
  std::sort(at.begin(), at.end());
  if (IsEven(at)) return Even(static_cast<int64_t>(at.size()));
  at.front() = -1;
  return {at, 1};
}

absl::StatusOr<MetricValue> AreaUnderCurve(const Config& config, LayerOutput prediction,
                                           Expr label) {
  COHORT_RETURN_IF_ERROR(FitLabel(&label, &prediction));
  Expr p = prediction.value;
  if (config.Bool("from_logits")) p = Sigmoid(p);
  p = AsRows(Clip(p, 0, 1), 1);
  const Thresholds thresholds = ThresholdsOf(config);
  const auto n = static_cast<int64_t>(thresholds.at.size());
  const Tensor at = Tensor::FromValues<double>({n}, thresholds.at);
  const Expr above =
      Cast(Greater(p * thresholds.scale, Cast(p.builder()->Constant(at), p.dtype())), p.dtype());
  const Expr positive = AsRows(NonZero(label), 1);
  const Expr labels[] = {positive, 1.0 - positive};
  const Expr counts = MatMul(Concat(labels, 1), above, /*transpose_a=*/true);  // [2, n]
  MetricValue auc;
  auc.finalizer.set_class_name("AUC");
  for (const char* argument : {"curve", "summation_method"}) {
    (*auc.finalizer.mutable_config())[argument] = ConfigOf(config.String(argument));
  }
  auc.accumulators = {{"true_positives", Reshape(Slice(counts, 0, 0, 1), {n})},
                      {"false_positives", Reshape(Slice(counts, 0, 1, 1), {n})}};
  return auc;
}

}  // namespace

MetricClass AUCMetric() {
  constexpr auto kMost = static_cast<double>(MetricLimits().max_elements / 2);
  return {.schema = MetricSchema(
              "AUC", {}, "Area under the ROC or precision-recall curve.",
              {Int("num_thresholds", "The points of the curve.").Default(200).Between(2, kMost),
               String("curve", "The curve.").Default("ROC").OneOf({"ROC", "PR"}),
               String("summation_method", "How the area between two thresholds is computed.")
                   .Default("interpolation")
                   .OneOf({"interpolation", "minoring", "majoring"}),
               Bool("from_logits", "The predictions are logits.").Default(false),
               Floats("thresholds", "The points between 0 and 1, instead of num_thresholds.")
                   .Between(0, 1)
                   .Optional(),
               Planned(Bool("multi_label", "").Default(false)), Planned("num_labels"),
               Planned("label_weights")}),
          .make = AreaUnderCurve,
          .higher_is_better = true};
}

}  // namespace cohort
