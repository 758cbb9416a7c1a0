// AUC within groups of records, as those of a user or a country. Keras has none: Zhu et al.,
// "Optimized Cost per Click in Taobao Display Advertising", 2017, call the weighted mean GAUC.
#include <numeric>

#include "common/metrics/metric_proto.h"
#include "common/model/losses/loss.h"
#include "common/model/metrics/confusion.h"
#include "common/model/metrics/metric.h"

namespace cohort {
namespace {

constexpr auto kMostCounts = static_cast<int64_t>(MetricLimits().max_elements / 2);

// The sums of `each` over the records of a group that exceed a threshold: [groups, thresholds].
struct GroupCounts {
  Expr true_positives, false_positives;
};

GroupCounts CountByGroup(const Elements& elements, const Thresholds& points, Expr group,
                         int64_t groups) {
  ProgramBuilder* const b = elements.p.builder();
  const Expr p = AsRows(Clip(elements.p, 0, 1), 1);
  const DType dtype = p.dtype();
  const auto n = static_cast<int64_t>(points.at.size());
  const Expr at = b->Constant(Tensor::FromValues<double>({n}, points.at));
  const Expr above = Cast(Greater(p * points.scale, Cast(at, dtype)), dtype);
  std::vector<int64_t> numbers(static_cast<size_t>(groups));
  std::iota(numbers.begin(), numbers.end(), 0);
  const Expr ids =
      b->Constant(Tensor::FromValues<int64_t>({groups}, std::span<const int64_t>(numbers)));
  Expr is_in = Cast(Equal(AsRows(group, 1), ids), dtype);  // [records, groups]
  if (elements.weight.valid()) is_in = is_in * AsRows(elements.weight, 1);
  const Expr positive = AsRows(elements.positive, 1);
  return {MatMul(is_in * positive, above, /*transpose_a=*/true),
          MatMul(is_in * (1.0 - positive), above, /*transpose_a=*/true)};
}

absl::StatusOr<MetricValue> GroupAuc(const Config& config, const MetricInput& given) {
  MetricInput input = given;
  if (config.Bool("from_logits")) input.prediction = Sigmoid(input.prediction.value);
  COHORT_ASSIGN_OR_RETURN(const Elements elements, ElementsOf(config, input));
  if (ElementsPerRecord(elements.p.type()) != 1) {
    return InvalidArgument("GroupAUC needs one prediction for each record, not {}",
                           TypeToString(elements.p.type()));
  }
  if (input.column == nullptr) return InvalidArgument("GroupAUC needs the columns of a data set");
  COHORT_ASSIGN_OR_RETURN(const Expr column, input.column(config.String("column")));
  if (ElementsPerRecord(column.type()) != 1) {
    return InvalidArgument("the column \"{}\" has {}, and GroupAUC needs one group for each record",
                           config.String("column"), TypeToString(column.type()));
  }
  Thresholds points = EvenThresholds(config.Int("num_thresholds"));
  points.at.front() = -1;
  const auto n = static_cast<int64_t>(points.at.size());
  const int64_t groups = config.Int("num_groups");
  if (groups * n > kMostCounts) {
    return InvalidArgument(
        "{} groups with {} thresholds are more than {} numbers: use a smaller num_thresholds, or "
        "bring groups together by the transform Hashing",
        groups, n, kMostCounts);
  }
  const GroupCounts counts = CountByGroup(elements, points, Cast(column, DType::kInt64), groups);
  if (config.String("average") == "none") {
    MetricValue all;
    for (int64_t i = 0; i < groups; ++i) {
      const auto of_group = [&](Expr x) { return Reshape(Slice(x, 0, i, 1), {n}); };
      all.parts.push_back(ValueOf("AUC", {{"true_positives", of_group(counts.true_positives)},
                                          {"false_positives", of_group(counts.false_positives)}}));
    }
    return all;
  }
  const auto flat = [&](Expr x) { return Reshape(x, {groups * n}); };
  MetricValue auc = ValueOf("GroupAUC", {{"true_positives", flat(counts.true_positives)},
                                         {"false_positives", flat(counts.false_positives)}});
  (*auc.finalizer.mutable_config())["num_groups"] = ConfigOf(groups);
  (*auc.finalizer.mutable_config())["average"] = config.Value("average");
  return auc;
}

}  // namespace

MetricClass GroupAUCMetric() {
  return {
      .schema = MetricSchema(
          "GroupAUC", {"gauc"},
          "The mean of the areas under the ROC curves of groups of records. A group whose "
          "labels are all equal has none, and does not count. Not in Keras.",
          {String("column", "The column with the number of the record's group, from 0."),
           Int("num_groups", "Groups; records of other numbers do not count.")
               .Between(1, static_cast<double>(kMostCounts / 2)),
           Int("num_thresholds", "The points of each curve.")
               .Default(40)
               .Between(2, static_cast<double>(kMostCounts)),
           String("average",
                  "weighted: by the records of groups. macro: all groups count the same. none: "
                  "the area of each group, reported as NAME_0, NAME_1 and so on.")
               .Default("weighted")
               .OneOf({"weighted", "macro", "none"}),
           FromLogitsArgument()}),
      .make = GroupAuc,
      .higher_is_better = true,
      .may_have_parts = [](const Config& config) { return config.String("average") == "none"; }};
}

}  // namespace cohort
