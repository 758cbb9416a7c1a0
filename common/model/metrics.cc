// Metrics (keras/src/metrics/accuracy_metrics.py), as (total, count) over the elements of a batch.
#include "common/graph/expr.h"
#include "common/model/losses.h"
#include "common/model/planned_names.h"

namespace cohort {
namespace {

enum class Kind { kAccuracy, kBinary, kSparseCategorical };

absl::StatusOr<Kind> FindMetric(std::string_view name) {
  if (name == "accuracy" || name == "acc") return Kind::kAccuracy;
  if (name == "binary_accuracy" || name == "BinaryAccuracy") return Kind::kBinary;
  if (name == "sparse_categorical_accuracy" || name == "SparseCategoricalAccuracy") {
    return Kind::kSparseCategorical;
  }
  constexpr std::string_view kKnown[] = {"accuracy", "binary_accuracy",
                                         "sparse_categorical_accuracy"};
  return NoSuchName("metric", name, kKnown, " (the mean loss is always one)");
}

// is_binary_or_sparse_categorical of keras/src/trainers/compile_utils.py.
absl::StatusOr<Kind> Resolve(Expr prediction, Expr label) {
  const ValueType p = prediction.type();
  const ValueType l = label.type();
  const Dim one{1, 0};
  if (p.dims.back() == one) return Kind::kBinary;
  if (l.dims.size() < p.dims.size() || l.dims.back() == one) return Kind::kSparseCategorical;
  return Unimplemented(
      "accuracy of a label {} and a prediction {} would be Keras' categorical_accuracy, which is "
      "not supported yet; give class numbers as the label",
      TypeToString(l), TypeToString(p));
}

absl::StatusOr<MetricValue> Mean(Expr matches, DType dtype) {
  const Expr values = Cast(matches, dtype);
  return MetricValue{ReduceSum(values), NumElements(values)};
}

absl::Status CheckFit(const std::vector<Dim>& label, const std::vector<Dim>& expected,
                      std::string_view name, Expr prediction) {
  if (label == expected) return absl::OkStatus();
  return InvalidArgument("{} of a label with {} axes and a prediction {}", name, label.size(),
                         TypeToString(prediction.type()));
}

absl::StatusOr<MetricValue> BinaryAccuracy(LayerOutput prediction, Expr label) {
  AlignRanks(&label, &prediction);
  const Expr p = prediction.value;
  COHORT_RETURN_IF_ERROR(
      CheckFit(label.type().dims, p.type().dims, "binary_accuracy", prediction.value));
  const Expr positive = Cast(Greater(p, p.builder()->Scalar(0.5, p.dtype())), p.dtype());
  return Mean(Equal(Cast(label, p.dtype()), positive), p.dtype());
}

absl::StatusOr<MetricValue> SparseCategoricalAccuracy(LayerOutput prediction, Expr label) {
  const Expr p = prediction.value;
  const std::vector<Dim> dims = label.type().dims;
  if (dims.size() == p.rank() && dims.back() == Dim{1, 0}) {
    label = Reshape(label, ReshapeDims(std::span<const Dim>(dims).first(dims.size() - 1)));
  }
  Expr picked = ArgMax(p);
  if (!picked.valid() || !label.valid()) return MetricValue{};
  COHORT_RETURN_IF_ERROR(CheckFit(label.type().dims, picked.type().dims,
                                  "sparse_categorical_accuracy", prediction.value));
  if (IsFloating(label.dtype())) {
    picked = Cast(picked, label.dtype());
  } else {
    label = Cast(label, DType::kInt64);
  }
  return Mean(Equal(label, picked), p.dtype());
}

}  // namespace

absl::Status CheckMetric(std::string_view name) { return FindMetric(name).status(); }

absl::StatusOr<MetricValue> MakeMetric(std::string_view name, LayerOutput prediction, Expr label) {
  COHORT_ASSIGN_OR_RETURN(Kind kind, FindMetric(name));
  if (!prediction.value.valid() || !label.valid()) return MetricValue{};
  if (kind == Kind::kAccuracy) {
    COHORT_ASSIGN_OR_RETURN(kind, Resolve(prediction.value, label));
  }
  return kind == Kind::kBinary ? BinaryAccuracy(prediction, label)
                               : SparseCategoricalAccuracy(prediction, label);
}

}  // namespace cohort
