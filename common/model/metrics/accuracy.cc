// Accuracies (keras/src/metrics/accuracy_metrics.py), as means.
#include "common/graph/expr.h"
#include "common/model/losses/loss.h"
#include "common/model/metrics/metric.h"

namespace cohort {
namespace {

absl::Status CheckFit(const std::vector<Dim>& label, const std::vector<Dim>& expected,
                      std::string_view name, Expr prediction) {
  if (label == expected) return absl::OkStatus();
  return InvalidArgument("{} of a label with {} axes and a prediction {}", name, label.size(),
                         TypeToString(prediction.type()));
}

absl::StatusOr<MetricValue> BinaryAccuracy(double threshold, const MetricInput& input) {
  LayerOutput prediction = input.prediction;
  Expr label = input.label;
  AlignRanks(&label, &prediction);
  const Expr p = prediction.value;
  COHORT_RETURN_IF_ERROR(
      CheckFit(label.type().dims, p.type().dims, "binary_accuracy", prediction.value));
  const Expr positive = Cast(Greater(p, p.builder()->Scalar(threshold, p.dtype())), p.dtype());
  return MeanOf(Equal(Cast(label, p.dtype()), positive), p.dtype(), input);
}

absl::StatusOr<MetricValue> SparseCategoricalAccuracy(const Config&, const MetricInput& input) {
  const Expr p = input.prediction.value;
  Expr label = input.label;
  const std::vector<Dim> dims = label.type().dims;
  if (dims.size() == p.rank() && dims.back() == Dim{1, 0}) {
    label = Reshape(label, ReshapeDims(std::span<const Dim>(dims).first(dims.size() - 1)));
  }
  Expr picked = ArgMax(p);
  if (!picked.valid() || !label.valid()) return MetricValue{};
  COHORT_RETURN_IF_ERROR(
      CheckFit(label.type().dims, picked.type().dims, "sparse_categorical_accuracy", p));
  if (IsFloating(label.dtype())) {
    picked = Cast(picked, label.dtype());
  } else {
    label = Cast(label, DType::kInt64);
  }
  return MeanOf(Equal(label, picked), p.dtype(), input);
}

absl::StatusOr<MetricValue> CategoricalAccuracy(const Config&, const MetricInput& input) {
  const Expr p = input.prediction.value;
  COHORT_RETURN_IF_ERROR(
      CheckFit(input.label.type().dims, p.type().dims, "categorical_accuracy", p));
  const Expr wanted = ArgMax(Cast(input.label, p.dtype()));
  const Expr picked = ArgMax(p);
  if (!wanted.valid() || !picked.valid()) return MetricValue{};
  return MeanOf(Equal(wanted, picked), p.dtype(), input);
}

// Chooses by the shapes (is_binary_or_sparse_categorical of keras/src/trainers/compile_utils.py).
absl::StatusOr<MetricValue> ChosenAccuracy(const Config& config, const MetricInput& input) {
  const ValueType p = input.prediction.value.type();
  const ValueType l = input.label.type();
  const Dim one{1, 0};
  if (p.dims.back() == one) return BinaryAccuracy(0.5, input);
  if (l.dims.size() < p.dims.size() || l.dims.back() == one) {
    return SparseCategoricalAccuracy(config, input);
  }
  return CategoricalAccuracy(config, input);
}

// Keras' class Accuracy: how often the prediction is the label itself.
absl::StatusOr<MetricValue> EqualElements(const Config&, const MetricInput& input) {
  LayerOutput prediction = input.prediction;
  Expr label = input.label;
  COHORT_RETURN_IF_ERROR(FitLabel(&label, &prediction));
  return MeanOf(Equal(label, prediction.value), label.dtype(), input);
}

}  // namespace

MetricClass AccuracyMetric() {
  ClassSchema schema =
      MetricSchema("Accuracy", {}, "Share of the labels that equal the prediction itself.", {});
  schema.only_exact = true;
  return {.schema = std::move(schema), .make = EqualElements, .higher_is_better = true};
}

// The string "accuracy" is no class of Keras; its class Accuracy is another metric.
MetricClass ChosenAccuracyMetric() {
  return {.schema = MetricSchema(
              "accuracy", {"acc", "ACC", "Acc"},
              "BinaryAccuracy, CategoricalAccuracy or SparseCategoricalAccuracy, by the "
              "shapes of label and prediction.",
              {}),
          .make = ChosenAccuracy,
          .higher_is_better = true};
}

MetricClass BinaryAccuracyMetric() {
  return {
      .schema = MetricSchema(
          "BinaryAccuracy", {}, "Share of the labels 0 and 1 that the prediction has.",
          {Float("threshold", "A prediction above it counts as 1.").Default(0.5).Between(0, 1)}),
      .make =
          [](const Config& config, const MetricInput& input) {
            return BinaryAccuracy(config.Float("threshold"), input);
          },
      .higher_is_better = true};
}

MetricClass CategoricalAccuracyMetric() {
  return {
      .schema = MetricSchema("CategoricalAccuracy", {},
                             "Share of the one-hot labels whose class has the largest value.", {}),
      .make = CategoricalAccuracy,
      .higher_is_better = true};
}

MetricClass SparseCategoricalAccuracyMetric() {
  return {
      .schema = MetricSchema("SparseCategoricalAccuracy", {},
                             "Share of the class numbers whose class has the largest value.", {}),
      .make = SparseCategoricalAccuracy,
      .higher_is_better = true};
}

}  // namespace cohort
