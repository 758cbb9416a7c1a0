#include "common/model/losses.h"

#include "common/graph/expr.h"
#include "common/model/planned_names.h"

namespace cohort {
namespace {

constexpr double kEpsilon = 1e-7;  // keras.backend.epsilon()

struct LossName {
  std::string_view name;
  std::vector<std::string_view> aliases;
};

std::span<const LossName> LossNames() {
  static const std::vector<LossName>& names = *new std::vector<LossName>{
      {"binary_crossentropy", {"BinaryCrossentropy", "bce", "BCE"}},
      {"sparse_categorical_crossentropy", {"SparseCategoricalCrossentropy"}},
      {"mean_squared_error", {"MeanSquaredError", "mse", "MSE"}},
  };
  return names;
}

absl::Status CheckSameShape(Expr label, Expr prediction) {
  if (label.type().dims == prediction.type().dims) return absl::OkStatus();
  return InvalidArgument("the label is {}, but the prediction is {}", TypeToString(label.type()),
                         TypeToString(prediction.type()));
}

absl::StatusOr<Expr> BinaryCrossentropy(bool from_logits, LayerOutput prediction, Expr label) {
  AlignRanks(&label, &prediction);
  COHORT_RETURN_IF_ERROR(CheckSameShape(label, prediction.value));
  const Expr y = Cast(label, prediction.value.dtype());
  // Keras treats the logits of a softmax here like those of a sigmoid.
  if (prediction.logits.valid()) {
    return ReduceMean(SigmoidCrossEntropy(y, prediction.logits), {-1});
  }
  if (from_logits) return ReduceMean(SigmoidCrossEntropy(y, prediction.value), {-1});
  const Expr p = Clip(prediction.value, kEpsilon, 1.0 - kEpsilon);
  return ReduceMean(-(y * Log(p) + (1.0 - y) * Log(1.0 - p)), {-1});
}

absl::StatusOr<Expr> SparseCategoricalCrossentropy(bool from_logits, LayerOutput prediction,
                                                   Expr label) {
  AlignRanks(&label, &prediction);
  Expr logits = prediction.logits;
  if (!logits.valid()) {
    logits = from_logits ? prediction.value : Log(Clip(prediction.value, kEpsilon, 1.0 - kEpsilon));
  }
  const ValueType label_type = label.type();
  const ValueType type = logits.type();
  std::vector<Dim> labels = label_type.dims;
  if (labels.size() == type.dims.size() && labels.back() == Dim{1, 0}) labels.pop_back();
  if (labels != std::vector<Dim>(type.dims.begin(), type.dims.end() - 1)) {
    return InvalidArgument(
        "the label is {}, but the prediction is {}: the label must be a class "
        "number for each row of the prediction",
        TypeToString(label_type), TypeToString(type));
  }
  Expr classes = Cast(label, DType::kInt64);
  if (label_type.dims.size() != 1) classes = Reshape(classes, {-1});
  if (type.dims.size() > 2) logits = Reshape(logits, {-1, type.dims.back().size});
  return SparseSoftmaxCrossEntropy(classes, logits);
}

absl::StatusOr<Expr> MeanSquaredError(LayerOutput prediction, Expr label) {
  AlignRanks(&label, &prediction);
  COHORT_RETURN_IF_ERROR(CheckSameShape(label, prediction.value));
  const Expr y = Cast(label, prediction.value.dtype());
  return ReduceMean(Square(y - prediction.value), {-1});
}

}  // namespace

void AlignRanks(Expr* label, LayerOutput* prediction) {
  if (!label->valid() || !prediction->value.valid()) return;
  const ValueType l = label->type();
  const ValueType p = prediction->value.type();
  const Dim one{1, 0};
  const auto squeezed = [](const ValueType& type) {
    return ReshapeDims(std::span<const Dim>(type.dims).first(type.dims.size() - 1));
  };
  const auto expanded = [](const ValueType& type) {
    std::vector<int64_t> dims = ReshapeDims(type.dims);
    dims.push_back(1);
    return dims;
  };
  if (l.dims.size() == p.dims.size() + 1 && l.dims.back() == one) {
    if (p.dims.size() == 1) {
      *prediction = {Reshape(prediction->value, expanded(p)), {}};
    } else {
      *label = Reshape(*label, squeezed(l));
    }
  } else if (p.dims.size() == l.dims.size() + 1 && p.dims.back() == one) {
    if (l.dims.size() == 1) {
      *label = Reshape(*label, expanded(l));
    } else {
      *prediction = {Reshape(prediction->value, squeezed(p)), {}};
    }
  }
}

absl::StatusOr<std::string_view> FindLoss(std::string_view name) {
  std::vector<std::string_view> known;
  for (const LossName& loss : LossNames()) {
    if (loss.name == name) return loss.name;
    for (std::string_view alias : loss.aliases) {
      if (alias == name) return loss.name;
    }
    known.push_back(loss.name);
  }
  return NoSuchName("loss", name, known);
}

absl::StatusOr<Expr> ElementwiseLoss(std::string_view loss, bool from_logits,
                                     LayerOutput prediction, Expr label) {
  COHORT_ASSIGN_OR_RETURN(const std::string_view name, FindLoss(loss));
  if (!prediction.value.valid() || !label.valid()) return Expr();
  if (prediction.value.rank() < 2) {
    return InvalidArgument("the prediction needs an axis beside the batch, and is {}",
                           TypeToString(prediction.value.type()));
  }
  if (name == "binary_crossentropy") return BinaryCrossentropy(from_logits, prediction, label);
  if (name == "mean_squared_error") return MeanSquaredError(prediction, label);
  return SparseCategoricalCrossentropy(from_logits, prediction, label);
}

}  // namespace cohort
