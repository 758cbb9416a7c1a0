// IoU, BinaryIoU, MeanIoU, OneHotIoU and OneHotMeanIoU (keras/src/metrics/iou_metrics.py). The
// state has, of each class that counts, the elements that have it in the label, in the prediction,
// and in both: Keras' confusion matrix has no more that its results need.
#include <algorithm>
#include <numeric>
#include <optional>

#include "common/model/losses/loss.h"
#include "common/model/losses/sample_weight.h"
#include "common/model/metrics/metric.h"

namespace cohort {
namespace {

struct IouOptions {
  int64_t num_classes = 2;
  std::vector<int64_t> targets;
  std::optional<int64_t> ignored;
};

// Class numbers, in the axes that records have beside the classes.
Expr ClassesOf(Expr x, bool sparse, DType floatx) {
  return sparse ? Cast(x, DType::kInt64) : ArgMax(Cast(x, floatx));
}

absl::StatusOr<MetricValue> Intersections(const IouOptions& options, Expr label, Expr prediction,
                                          Expr sample_weight, DType floatx) {
  if (!label.valid() || !prediction.valid()) return MetricValue{};
  if (ElementsPerRecord(label.type()) != ElementsPerRecord(prediction.type())) {
    return InvalidArgument(
        "the classes of the label are {}, and those of the prediction {}: set sparse_y_true and "
        "sparse_y_pred to what they are",
        TypeToString(label.type()), TypeToString(prediction.type()));
  }
  if (*std::max_element(options.targets.begin(), options.targets.end()) >= options.num_classes) {
    return InvalidArgument("a target class id is not below num_classes, {}", options.num_classes);
  }
  Expr weight;
  if (sample_weight.valid()) {
    COHORT_ASSIGN_OR_RETURN(const Expr each, WeightLike(sample_weight, Cast(label, floatx)));
    weight = AsRows(each, 1);
  }
  const Expr y = AsRows(label, 1), p = AsRows(prediction, 1);
  ProgramBuilder* const b = y.builder();
  const auto number = [b](int64_t value) {
    return b->Scalar(static_cast<double>(value), DType::kInt64);
  };
  const auto inside = [&](Expr x) {
    return LogicalAnd(GreaterEqual(x, number(0)), Greater(number(options.num_classes), x));
  };
  Expr counts = LogicalAnd(inside(y), inside(p));
  if (options.ignored.has_value()) {
    counts = LogicalAnd(counts, LogicalNot(Equal(y, number(*options.ignored))));
  }
  Expr each = Cast(counts, floatx);
  if (weight.valid()) each = each * weight;
  const auto size = static_cast<int64_t>(options.targets.size());
  const Expr ids =
      b->Constant(Tensor::FromValues<int64_t>({size}, std::span<const int64_t>(options.targets)));
  const Expr labeled = Cast(Equal(y, ids), floatx) * each;  // [elements, targets]
  const Expr predicted = Cast(Equal(p, ids), floatx);
  return ValueOf("IoU", {{"true_positives", ReduceSum(labeled * predicted, {0})},
                         {"predicted", ReduceSum(predicted * each, {0})},
                         {"labels", ReduceSum(labeled, {0})}});
}

std::vector<int64_t> AllClasses(int64_t count) {
  std::vector<int64_t> classes(static_cast<size_t>(count));
  std::iota(classes.begin(), classes.end(), 0);
  return classes;
}

absl::StatusOr<MetricValue> OfClasses(const Config& config, const MetricInput& input) {
  IouOptions options;
  options.num_classes = config.Int("num_classes");
  options.targets = config.Has("target_class_ids") ? config.Ints("target_class_ids")
                                                   : AllClasses(options.num_classes);
  if (options.targets.empty()) return InvalidArgument("target_class_ids is empty");
  if (config.Has("ignore_class")) options.ignored = config.Int("ignore_class");
  const DType floatx = input.prediction.value.dtype();
  const bool sparse_label = config.Has("sparse_y_true") && config.Bool("sparse_y_true");
  const Expr label = ClassesOf(input.label, sparse_label, floatx);
  const Expr prediction = ClassesOf(input.prediction.value, config.Bool("sparse_y_pred"), floatx);
  return Intersections(options, label, prediction, input.weight, floatx);
}

absl::StatusOr<MetricValue> OfBits(const Config& config, const MetricInput& input) {
  IouOptions options;
  options.targets = config.Ints("target_class_ids");
  if (options.targets.empty()) return InvalidArgument("target_class_ids is empty");
  const Expr p = input.prediction.value;
  const Expr bits = GreaterEqual(p, p.builder()->Scalar(config.Float("threshold"), p.dtype()));
  return Intersections(options, Cast(input.label, DType::kInt64),
                       Cast(Cast(bits, p.dtype()), DType::kInt64), input.weight, p.dtype());
}

Argument NumClasses() { return Int("num_classes", "The number of classes.").Between(1, 5000); }
Argument Targets() { return Ints("target_class_ids", "The classes that count.").AtLeast(0); }
Argument Ignored() {
  return Int("ignore_class", "A class of labels whose elements do not count.").Optional();
}
Argument SparseLabel() {
  return Bool("sparse_y_true", "The labels are class numbers; else the largest element counts.")
      .Default(true);
}
Argument SparsePrediction(bool by_default) {
  return Bool("sparse_y_pred",
              "The predictions are class numbers; else the largest element counts.")
      .Default(by_default);
}

MetricClass MakeIou(std::string_view name, std::string_view doc, std::vector<Argument> arguments) {
  return {.schema = MetricSchema(name, {}, doc, std::move(arguments)),
          .make = OfClasses,
          .higher_is_better = true};
}

}  // namespace

MetricClass IoUMetric() {
  return MakeIou("IoU", "Intersection over union of label and prediction, of some classes.",
                 {NumClasses(), Targets(), Ignored(), SparseLabel(), SparsePrediction(true),
                  LastAxisArgument()});
}

MetricClass MeanIoUMetric() {
  return MakeIou(
      "MeanIoU", "Intersection over union, the mean of all classes.",
      {NumClasses(), Ignored(), SparseLabel(), SparsePrediction(true), LastAxisArgument()});
}

MetricClass OneHotIoUMetric() {
  return MakeIou("OneHotIoU", "IoU of one-hot labels.",
                 {NumClasses(), Targets(), Ignored(), SparsePrediction(false), LastAxisArgument()});
}

MetricClass OneHotMeanIoUMetric() {
  return MakeIou("OneHotMeanIoU", "MeanIoU of one-hot labels.",
                 {NumClasses(), Ignored(), SparsePrediction(false), LastAxisArgument()});
}

MetricClass BinaryIoUMetric() {
  return {.schema = MetricSchema(
              "BinaryIoU", {}, "Intersection over union of labels 0 and 1.",
              {Ints("target_class_ids", "The classes that count.")
                   .Default(std::vector<int64_t>{0, 1})
                   .Between(0, 1),
               Float("threshold", "A prediction that reaches it counts as 1.").Default(0.5)}),
          .make = OfBits,
          .higher_is_better = true};
}

}  // namespace cohort
