// AUC of keras/src/metrics/confusion_metrics.py.
//
// The thresholds are those between 0 and 1, with one below 0 and one above 1 that Keras adds. Every
// prediction exceeds the lowest threshold, so the counts there are those of all positive and all
// negative labels, and false negatives and true negatives follow from them.
#include <absl/strings/ascii.h>

#include <algorithm>

#include "common/metrics/metric_proto.h"
#include "common/model/losses/loss.h"
#include "common/model/metrics/confusion.h"
#include "common/model/metrics/metric.h"

namespace cohort {
namespace {

Thresholds PointsOf(const Config& config) {
  Thresholds points;
  if (config.IsNone("thresholds")) {
    points = EvenThresholds(config.Int("num_thresholds"));
  } else {
    points.at = config.Floats("thresholds");
    points.at.insert(points.at.end(), {0, 1});
    std::sort(points.at.begin(), points.at.end());
    if (AreEven(points.at)) points = EvenThresholds(static_cast<int64_t>(points.at.size()));
    points.clips = true;
  }
  points.at.front() = -1;
  return points;
}

// The counts of each label, one label after the other.
absl::StatusOr<MetricValue> ByLabel(const Elements& elements, const Thresholds& points) {
  const ValueType type = elements.p.type();
  if (type.dims.size() != 2) {
    return InvalidArgument("multi_label needs a prediction [batch, labels], not {}",
                           TypeToString(type));
  }
  const int64_t labels = type.dims[1].size;
  const auto n = static_cast<int64_t>(points.at.size());
  constexpr auto kMost = static_cast<int64_t>(MetricLimits().max_elements / 2);
  if (labels * n > kMost) {
    return InvalidArgument(
        "{} labels with {} thresholds are more than {} numbers: use a smaller num_thresholds",
        labels, n, kMost);
  }
  const auto each = [&](Expr x) { return AsRows(x, labels); };
  std::vector<Dim> dims = type.dims;
  dims.push_back({1, 0});
  const auto wide = [&](Expr x) { return Reshape(each(x), ReshapeDims(dims)); };
  const Expr at = elements.p.builder()->Constant(Tensor::FromValues<double>({n}, points.at));
  const Expr above =
      Cast(Greater(wide(Clip(elements.p, 0, 1)) * points.scale, Cast(at, type.dtype)),
           type.dtype);  // [batch, labels, n]
  Expr positive = elements.positive, negative = 1.0 - positive;
  if (elements.weight.valid()) {
    positive = positive * elements.weight;
    negative = negative * elements.weight;
  }
  MetricValue auc = ValueOf(
      "AUC", {{"true_positives", Reshape(ReduceSum(wide(positive) * above, {0}), {labels * n})},
              {"false_positives", Reshape(ReduceSum(wide(negative) * above, {0}), {labels * n})}});
  (*auc.finalizer.mutable_config())["num_labels"] = ConfigOf(labels);
  return auc;
}

absl::StatusOr<MetricValue> AreaUnderCurve(const Config& config, const MetricInput& given) {
  MetricInput input = given;
  if (config.Bool("from_logits")) input.prediction = Sigmoid(input.prediction.value);
  COHORT_ASSIGN_OR_RETURN(Elements elements, ElementsOf(config, input));
  const Thresholds points = PointsOf(config);
  const ValueType type = elements.p.type();
  const std::vector<double> weights = config.Floats("label_weights");
  const int64_t labels = type.dims.back().size;
  if (!weights.empty() && static_cast<int64_t>(weights.size()) != labels) {
    return InvalidArgument("label_weights has {} numbers, and the prediction {} labels",
                           weights.size(), labels);
  }
  if (config.Has("num_labels") && config.Int("num_labels") != labels) {
    return InvalidArgument("num_labels is {}, and the prediction has {} labels",
                           config.Int("num_labels"), labels);
  }
  const bool by_label = config.Bool("multi_label");
  if (!by_label && !weights.empty()) {
    const Expr factors = elements.p.builder()->Constant(
        Tensor::FromValues<double>({labels}, std::span<const double>(weights)));
    const Expr each = BroadcastLike(Cast(factors, type.dtype), elements.p);
    elements.weight = elements.weight.valid() ? elements.weight * each : each;
  }
  MetricValue auc;
  if (by_label) {
    COHORT_ASSIGN_OR_RETURN(auc, ByLabel(elements, points));
    if (!weights.empty()) {
      (*auc.finalizer.mutable_config())["label_weights"] = config.Value("label_weights");
    }
  } else {
    const ConfusionCounts counts = CountAbove(elements, points);
    auc = ValueOf("AUC", {{"true_positives", counts.true_positives},
                          {"false_positives", counts.false_positives}});
  }
  (*auc.finalizer.mutable_config())["curve"] =
      ConfigOf(absl::AsciiStrToUpper(config.String("curve")));
  (*auc.finalizer.mutable_config())["summation_method"] =
      ConfigOf(absl::AsciiStrToLower(config.String("summation_method")));
  return auc;
}

}  // namespace

MetricClass AUCMetric() {
  constexpr auto kMost = static_cast<double>(MetricLimits().max_elements / 2);
  return {.schema = MetricSchema(
              "AUC", {}, "Area under the ROC or precision-recall curve.",
              {Int("num_thresholds", "The points of the curve.").Default(200).Between(2, kMost),
               String("curve", "The curve.")
                   .Default("ROC")
                   .OneOf({"ROC", "PR", "PRGAIN", "roc", "pr", "prgain"}),
               String("summation_method", "How the area between two thresholds is computed.")
                   .Default("interpolation")
                   .OneOf({"interpolation", "minoring", "majoring", "Interpolation", "Minoring",
                           "Majoring"}),
               Bool("from_logits", "The predictions are logits.").Default(false),
               Floats("thresholds", "The points between 0 and 1, instead of num_thresholds.")
                   .Between(0, 1)
                   .Optional(),
               Bool("multi_label", "True: the mean of the areas of all labels.").Default(false),
               Int("num_labels", "With multi_label: the number of labels, which is checked.")
                   .AtLeast(1)
                   .Optional(),
               Floats("label_weights", "The weight of each label.").Optional()}),
          .make = AreaUnderCurve,
          .higher_is_better = true};
}

}  // namespace cohort
