// R2Score (keras/src/metrics/regression_metrics.py).
#include "common/model/losses/loss.h"
#include "common/model/metrics/metric.h"

namespace cohort {
namespace {

absl::StatusOr<MetricValue> Determination(const Config& config, const MetricInput& input) {
  LayerOutput prediction = input.prediction;
  Expr y = input.label;
  COHORT_RETURN_IF_ERROR(FitLabel(&y, &prediction));
  const ValueType type = y.type();
  if (type.dims.size() != 2) {
    return InvalidArgument("R2Score needs predictions [batch, outputs], not {}",
                           TypeToString(type));
  }
  Expr weight = BroadcastLike(y.builder()->Scalar(1, y.dtype()), y);
  if (input.weight.valid()) {
    COHORT_ASSIGN_OR_RETURN(weight, WeightLike(input.weight, y));
  }
  const Expr weighted = y * weight;
  const MetricExpr samples{"num_samples", NumElements(y)};
  const std::vector<MetricExpr> sums = {
      {"squared_sum", ReduceSum(y * weighted, {0})},
      {"sum", ReduceSum(weighted, {0})},
      {"residual", ReduceSum(Square(y - prediction.value) * weight, {0})},
      {kCount, ReduceSum(weight, {0})}};
  const auto make = [&](std::vector<MetricExpr> accumulators, std::string_view aggregation) {
    accumulators.push_back(samples);
    MetricValue score = ValueOf("R2", std::move(accumulators));
    auto& arguments = *score.finalizer.mutable_config();
    arguments["class_aggregation"] = ConfigOf(aggregation);
    arguments["num_regressors"] = ConfigOf(config.Int("num_regressors"));
    return score;
  };
  if (!config.IsNone("class_aggregation")) return make(sums, config.String("class_aggregation"));
  MetricValue all;
  for (int64_t i = 0; i < type.dims[1].size; ++i) {
    std::vector<MetricExpr> of_output = sums;
    for (MetricExpr& sum : of_output) sum.value = Slice(sum.value, 0, i, 1);
    all.parts.push_back(make(std::move(of_output), "uniform_average"));
  }
  return all;
}

}  // namespace

MetricClass R2ScoreMetric() {
  return {
      .schema = MetricSchema(
          "R2Score", {}, "The share of the variance of labels that predictions explain.",
          {String("class_aggregation",
                  "How the scores of outputs become one. None: a number for "
                  "each, reported as NAME_0, NAME_1 and so on.")
               .Default("uniform_average")
               .OneOf({"uniform_average", "variance_weighted_average"})
               .OrNone(),
           Int("num_regressors", "Independent variables, for the adjusted score. 0: not adjusted.")
               .Default(0)
               .AtLeast(0)}),
      .make = Determination,
      .higher_is_better = true,
      .may_have_parts = [](const Config& config) { return config.IsNone("class_aggregation"); }};
}

}  // namespace cohort
