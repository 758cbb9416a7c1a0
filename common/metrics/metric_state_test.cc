#include "common/metrics/metric_state.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "common/base/status.h"
#include "common/metrics/finalizers.h"
#include "common/metrics/metric_proto.h"
#include "proto/metrics.pb.h"

namespace cohort {
namespace {

using Catch::Contains;

FinalizerConfig Named(const std::string& name, const std::string& curve = "") {
  v1::ClassConfig config;
  config.set_class_name(name);
  if (!curve.empty()) (*config.mutable_config())["curve"] = ConfigOf(std::string_view(curve));
  return std::make_shared<const v1::ClassConfig>(config);
}

MetricState Curve(const std::string& curve, std::vector<double> tp, std::vector<double> fp) {
  return {"auc",
          Named("AUC", curve),
          {{"true_positives", Reduction::kSum, std::move(tp)},
           {"false_positives", Reduction::kSum, std::move(fp)}}};
}

TEST_CASE("a mean is its total divided by its count, and 0 without a count") {
  CHECK(MeanState("loss", 3, 4).Value() == 0.75);
  CHECK(MeanState("loss", 0, 0).Value() == 0);
  CHECK_FALSE(MeanState("loss", NAN, 1).finite());
  MetricState root = MeanState("rmse", 8, 2);
  root.finalizer = Named("RootMean");
  CHECK(root.Value() == 2);
}

TEST_CASE("parts are folded by the reduction of each accumulator, element by element") {
  MetricState state{"m",
                    nullptr,
                    {{"s", Reduction::kSum, {1, 2}},
                     {"least", Reduction::kMin, {5, -1}},
                     {"most", Reduction::kMax, {5, -1}}}};
  MetricState part = state;
  part.accumulators[0].values = {10, 20};
  part.accumulators[1].values = {4, 0};
  part.accumulators[2].values = {4, 0};
  FoldMetric(part, &state);
  CHECK(state.accumulators[0].values == std::vector<double>{11, 22});
  CHECK(state.accumulators[1].values == std::vector<double>{4, -1});
  CHECK(state.accumulators[2].values == std::vector<double>{5, 0});
  CHECK(state.Scalar("least") == 4);
  CHECK(state.Scalar("none") == 0);
}

TEST_CASE("metrics are folded by name, and another shape replaces the state") {
  std::vector<MetricState> states;
  const std::vector<MetricState> parts = {MeanState("loss", 1, 2), MeanState("accuracy", 1, 1)};
  FoldMetrics(parts, &states);
  FoldMetrics(parts, &states);
  REQUIRE(states.size() == 2);
  CHECK(states[0].Scalar(kTotal) == 2);
  CHECK(states[1].Scalar(kCount) == 2);
  const MetricState curve = Curve("ROC", {2, 1}, {2, 0});
  MetricState replaced = states[0];
  FoldMetric(curve, &replaced);
  CHECK(replaced.accumulators == curve.accumulators);
}

TEST_CASE("the area under a curve") {
  // Three thresholds: all four examples exceed the first, two positives the second.
  CHECK(Curve("ROC", {2, 2, 0}, {2, 0, 0}).Value() == 1);
  CHECK(Curve("PR", {2, 2, 0}, {2, 0, 0}).Value() == Approx(1));
  CHECK(Curve("ROC", {2, 1, 0}, {2, 1, 0}).Value() == 0.5);
  CHECK(Curve("ROC", {0, 0}, {0, 0}).Value() == 0);
  CHECK(Curve("PR", {0, 0}, {3, 0}).Value() == 0);
}

TEST_CASE("finalizers of known numbers") {
  const auto value = [](const v1::ClassConfig& finalizer,
                        const std::vector<std::pair<std::string, std::vector<double>>>& sums) {
    MetricState state{"m", std::make_shared<const v1::ClassConfig>(finalizer), {}};
    for (const auto& [name, values] : sums) {
      state.accumulators.push_back({name, Reduction::kSum, values});
    }
    return state.Value();
  };
  CHECK(value(ClassOf("Best", {{"rate", ConfigOf("recall")},
                               {"bounded", ConfigOf("precision")},
                               {"bound", ConfigOf(0.7)}}),
              {{"true_positives", {4, 3, 1, 0}},
               {"false_positives", {4, 1, 0, 0}},
               {"positives", {4}},
               {"negatives", {4}}}) == 0.75);
  CHECK(value(ClassOf("FBeta"), {{"true_positives", {2}},
                                 {"false_positives", {1}},
                                 {"false_negatives", {1}},
                                 {"weights", {3}}}) == Approx(2.0 / 3));
  // The class that does not occur does not count.
  CHECK(value(ClassOf("IoU"),
              {{"true_positives", {1, 2, 0}}, {"predicted", {2, 2, 0}}, {"labels", {2, 4, 0}}}) ==
        Approx(5.0 / 12));
  // Labels 1, 2, 3 and predictions 1, 2, 4.
  CHECK(value(ClassOf("R2"), {{"squared_sum", {14}},
                              {"sum", {6}},
                              {"residual", {1}},
                              {"count", {3}},
                              {"num_samples", {3}}}) == Approx(0.5));
  CHECK(value(ClassOf("NormalizedEntropy"),
              {{"total", {2 * std::log(2)}}, {"count", {2}}, {"positives", {1}}}) == Approx(1));
  // One label without an error, and one at chance.
  CHECK(value(ClassOf("AUC", {{"num_labels", ConfigOf(2)}}),
              {{"true_positives", {2, 2, 0, 2, 1, 0}}, {"false_positives", {2, 0, 0, 2, 1, 0}}}) ==
        Approx(0.75));
  // A group without an error, one at chance with half as many records, and one of equal labels.
  const std::vector<double> tp = {4, 4, 0, 2, 1, 0, 3, 1, 0}, fp = {4, 0, 0, 2, 1, 0, 0, 0, 0};
  CHECK(value(ClassOf("GroupAUC", {{"num_groups", ConfigOf(3)}}),
              {{"true_positives", tp}, {"false_positives", fp}}) == Approx((8 + 0.5 * 4) / 12));
  CHECK(value(ClassOf("GroupAUC", {{"num_groups", ConfigOf(3)}, {"average", ConfigOf("macro")}}),
              {{"true_positives", tp}, {"false_positives", fp}}) == Approx(0.75));
  CHECK(value(ClassOf("ConfusionMatrix"), {{"confusion_matrix", {3, 1, 0, 4}}}) == Approx(7.0 / 8));
}

TEST_CASE("a finalizer that the build lacks, or that does not suit, gives NaN") {
  MetricState state = MeanState("m", 1, 2);
  state.finalizer = Named("Median");
  CHECK(std::isnan(state.Value()));
  CHECK_THAT(std::string(Finalize(state).status().message()),
             Contains("there is no finalizer \"Median\"; there are AUC, Best, ConfusionMatrix, "
                      "FBeta, GroupAUC, IoU, Mean, NormalizedEntropy, R2, RootMean, Single"));
  state.finalizer = Named("AUC");
  CHECK_THAT(std::string(Finalize(state).status().message()),
             Contains("AUC needs the accumulator 'true_positives'; there are total, count"));
  state.finalizer = Named("AUC", "PRC");
  CHECK_THAT(std::string(Finalize(state).status().message()), Contains("curve must be ROC, PR"));
  state.finalizer = Named("Single");
  CHECK_THAT(std::string(Finalize(state).status().message()), Contains("takes one accumulator"));
  state.accumulators.pop_back();
  CHECK(state.Value() == 1);
  state.accumulators[0].values.clear();
  CHECK(std::isnan(state.Value()));
}

TEST_CASE("a registered finalizer is used as the others") {
  const auto spread = [](const Config&, std::span<const std::span<const double>> a) {
    return a[0][0] - a[1][0];
  };
  REQUIRE(Finalizers().Register({{"Spread", {}, "", {}}, {"most", "least"}, spread}).ok());
  const MetricState state{
      "spread", Named("Spread"), {{"least", Reduction::kMin, {2}}, {"most", Reduction::kMax, {7}}}};
  CHECK(state.Value() == 5);
}

TEST_CASE("a mean has a short form on the wire, which older versions know") {
  v1::MetricValue value;
  MetricToProto(MeanState("loss", 3, 4), &value);
  CHECK(value.total() == 3);
  CHECK(value.count() == 4);
  CHECK(value.accumulators().empty());
  CHECK(MetricFromProto(value).accumulators == MeanState("loss", 3, 4).accumulators);
}

TEST_CASE("any other metric keeps its accumulators on the wire") {
  const MetricState curve = Curve("PR", {2, 1.5, 0}, {1, INFINITY, 0});
  v1::MetricValue value;
  MetricToProto(curve, &value);
  CHECK(value.finalizer().class_name() == "AUC");
  const MetricState back = MetricFromProto(value);
  CHECK(back.accumulators == curve.accumulators);
  CHECK(Config(*back.finalizer).String("curve") == "PR");
  MetricState root = MeanState("rmse", 8, 2);
  root.finalizer = Named("RootMean");
  MetricToProto(root, &value);
  CHECK(MetricFromProto(value).Value() == 2);
}

TEST_CASE("metrics beyond their limits are refused") {
  const MetricLimits limits;
  MetricValues values;
  MetricToProto(Curve("ROC", {2, 1}, {1, 1}), values.Add());
  CHECK(CheckMetricValues(values).ok());
  const auto problem = [&](auto spoil) {
    MetricValues spoiled = values;
    spoil(&spoiled);
    return std::string(CheckMetricValues(spoiled).message());
  };
  CHECK(problem([](MetricValues* v) { v->at(0).mutable_accumulators(0)->clear_values(); }) ==
        "metric 'auc': accumulator 'true_positives' has no values");
  CHECK(problem([](MetricValues* v) { v->at(0).mutable_accumulators(1)->clear_reduction(); }) ==
        "metric 'auc': accumulator 'false_positives' has the unknown reduction 0");
  CHECK(problem([](MetricValues* v) {
          v->at(0).mutable_name()->resize(5000);
        }).find("its name has 5000 bytes") != std::string::npos);
  CHECK(problem([&](MetricValues* v) {
          v->at(0).mutable_accumulators(0)->mutable_values()->Resize(
              static_cast<int>(limits.max_elements), 0);
        }) == "metric 'auc': its accumulators have 16386 elements, at most 16384 are allowed");
  CHECK(problem([&](MetricValues* v) {
          while (v->at(0).accumulators_size() < 65) v->at(0).add_accumulators();
        }) == "metric 'auc': it has 65 accumulators, at most 64 are allowed");
  CHECK(problem([&](MetricValues* v) {
          while (v->size() < 1025) v->Add();
        }) == "1025 metrics, at most 1024 are allowed");
  CHECK(problem([&](MetricValues* v) {
          v->at(0).mutable_accumulators(0)->mutable_values()->Resize(16000, 0);
          while (v->size() < 70) *v->Add() = v->at(0);
        }).find("the metrics have 1120140 elements") == 0);
}

}  // namespace
}  // namespace cohort
