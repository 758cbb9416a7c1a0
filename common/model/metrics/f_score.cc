// FBetaScore and F1Score (keras/src/metrics/f_score_metrics.py).
#include "common/model/losses/loss.h"
#include "common/model/metrics/metric.h"

namespace cohort {
namespace {

// 1 for the predictions that count as positive: those above the threshold, or the largest of each
// record.
Expr Predicted(const Config& config, Expr p) {
  const auto number = [&](double value) { return p.builder()->Scalar(value, p.dtype()); };
  if (!config.IsNone("threshold")) {
    return Cast(Greater(p, number(config.Float("threshold"))), p.dtype());
  }
  const Expr is_largest = GreaterEqual(p, ReduceMax(p, {-1}, true));
  return Cast(LogicalAnd(is_largest, Greater(Abs(p), number(1e-9))), p.dtype());
}

absl::StatusOr<MetricValue> FScore(const Config& config, double beta, const MetricInput& input) {
  LayerOutput prediction = input.prediction;
  Expr y = input.label;
  COHORT_RETURN_IF_ERROR(FitLabel(&y, &prediction));
  const ValueType type = y.type();
  if (type.dims.size() != 2) {
    return InvalidArgument("F scores need predictions [batch, classes], not {}",
                           TypeToString(type));
  }
  const Expr predicted = Predicted(config, prediction.value);
  Expr weight;
  if (input.weight.valid()) {
    COHORT_ASSIGN_OR_RETURN(weight, WeightLike(input.weight, y));
  }
  const bool by_class = config.IsNone("average") || config.String("average") != "micro";
  const auto sum = [&](Expr x) {
    if (weight.valid()) x = x * weight;
    return by_class ? ReduceSum(x, {0}) : ReduceSum(x);
  };
  const std::vector<MetricExpr> sums = {{"true_positives", sum(predicted * y)},
                                        {"false_positives", sum(predicted * (1.0 - y))},
                                        {"false_negatives", sum((1.0 - predicted) * y)},
                                        {"weights", sum(y)}};
  const auto make = [&](std::vector<MetricExpr> accumulators, std::string_view average) {
    MetricValue score = ValueOf("FBeta", std::move(accumulators));
    (*score.finalizer.mutable_config())["beta"] = ConfigOf(beta);
    (*score.finalizer.mutable_config())["average"] = ConfigOf(average);
    return score;
  };
  if (!config.IsNone("average")) {
    return make(sums, config.String("average") == "weighted" ? "weighted" : "macro");
  }
  MetricValue all;
  for (int64_t i = 0; i < type.dims[1].size; ++i) {
    std::vector<MetricExpr> of_class = sums;
    for (MetricExpr& accumulator : of_class) {
      accumulator.value = Slice(accumulator.value, 0, i, 1);
    }
    all.parts.push_back(make(std::move(of_class), "macro"));
  }
  return all;
}

Argument Average() {
  return String(
             "average",
             "How the scores of classes become one: micro, macro or weighted. None: a number for "
             "each, reported as NAME_0, NAME_1 and so on.")
      .Optional()
      .OneOf({"micro", "macro", "weighted"});
}

Argument Threshold() {
  return Float("threshold", "A prediction above it is positive. None: the largest one of a record.")
      .Between(0, 1)
      .Optional();
}

bool IsByClass(const Config& config) { return config.IsNone("average"); }

}  // namespace

MetricClass FBetaScoreMetric() {
  return {
      .schema = MetricSchema(
          "FBetaScore", {}, "The harmonic mean of precision and recall, weighted by beta.",
          {Average(),
           Float("beta", "How much more recall counts than precision.").Default(1.0).AtLeast(1e-6),
           Threshold()},
          "fbeta_score"),
      .make = [](const Config& config,
                 const MetricInput& input) { return FScore(config, config.Float("beta"), input); },
      .higher_is_better = true,
      .may_have_parts = IsByClass};
}

MetricClass F1ScoreMetric() {
  return {.schema = MetricSchema("F1Score", {}, "The harmonic mean of precision and recall.",
                                 {Average(), Threshold()}),
          .make = [](const Config& config,
                     const MetricInput& input) { return FScore(config, 1, input); },
          .higher_is_better = true,
          .may_have_parts = IsByClass};
}

}  // namespace cohort
