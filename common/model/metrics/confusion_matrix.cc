// The counts of records by label and predicted class, as tf.math.confusion_matrix. The report of a
// run draws them (kConfusionMatrix of common/run_report).
#include <numeric>

#include "common/model/losses/loss.h"
#include "common/model/metrics/metric.h"

namespace cohort {
namespace {

constexpr int64_t kMostMatrixClasses = 100;  // what a report shows

// The classes of labels and predictions, int64 [elements, 1], how many there are, and a value with
// the axes that weights have.
struct ClassPairs {
  Expr label, prediction, like;
  int64_t count = 2;
};

absl::StatusOr<ClassPairs> PairsOf(const Config& config, const MetricInput& input) {
  const Expr p = input.prediction.value;
  const int64_t units = p.rank() < 2 ? 1 : p.type().dims.back().size;
  if (units == 1) {
    const Expr threshold = p.builder()->Scalar(config.Float("threshold"), p.dtype());
    return ClassPairs{AsRows(Cast(input.label, DType::kInt64), 1),
                      AsRows(Cast(Cast(Greater(p, threshold), p.dtype()), DType::kInt64), 1), p};
  }
  if (units > kMostMatrixClasses) {
    return InvalidArgument("the prediction has {} classes, and ConfusionMatrix is for at most {}",
                           units, kMostMatrixClasses);
  }
  const bool one_hot = ElementsPerRecord(input.label.type()) == ElementsPerRecord(p.type());
  const Expr label = one_hot ? ArgMax(Cast(input.label, p.dtype())) : input.label;
  if (ElementsPerRecord(label.type()) * units != ElementsPerRecord(p.type())) {
    return InvalidArgument("the labels are {}, and the predictions {}",
                           TypeToString(input.label.type()), TypeToString(p.type()));
  }
  const Expr predicted = ArgMax(p);
  return ClassPairs{AsRows(Cast(label, DType::kInt64), 1), AsRows(predicted, 1),
                    Cast(predicted, p.dtype()), units};
}

absl::StatusOr<MetricValue> CountPairs(const Config& config, const MetricInput& input) {
  COHORT_ASSIGN_OR_RETURN(const ClassPairs classes, PairsOf(config, input));
  const DType floatx = input.prediction.value.dtype();
  COHORT_ASSIGN_OR_RETURN(const Expr weight, WeightWithoutMasked(input));
  std::vector<int64_t> numbers(static_cast<size_t>(classes.count));
  std::iota(numbers.begin(), numbers.end(), 0);
  const Expr ids = classes.label.builder()->Constant(
      Tensor::FromValues<int64_t>({classes.count}, std::span<const int64_t>(numbers)));
  Expr labeled = Cast(Equal(classes.label, ids), floatx);  // [elements, classes]
  const Expr predicted = Cast(Equal(classes.prediction, ids), floatx);
  if (weight.valid()) {
    COHORT_ASSIGN_OR_RETURN(const Expr each, WeightLike(weight, classes.like));
    labeled = labeled * AsRows(each, 1);
  }
  const Expr matrix = MatMul(labeled, predicted, /*transpose_a=*/true);
  return ValueOf("ConfusionMatrix",
                 {{"confusion_matrix", Reshape(matrix, {classes.count * classes.count})}});
}

}  // namespace

MetricClass ConfusionMatrixMetric() {
  return {
      .schema = MetricSchema(
          "ConfusionMatrix", {},
          "Counts of records by label and prediction, which the page of `cohort report` shows. "
          "Its value is the share of the diagonal: the accuracy. Not in Keras.",
          {Float("threshold", "With one unit: a prediction above it is class 1.").Default(0.5)}),
      .make = CountPairs,
      .higher_is_better = true};
}

}  // namespace cohort
