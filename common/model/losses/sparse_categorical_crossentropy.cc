// SparseCategoricalCrossentropy (keras/src/losses/losses.py, keras/src/backend/tensorflow/nn.py).
#include "common/graph/expr.h"
#include "common/model/losses/loss.h"

namespace cohort {
namespace {

absl::StatusOr<Expr> ElementwiseSparseCategoricalCrossentropy(const Config& config,
                                                              LayerOutput prediction, Expr label) {
  AlignRanks(&label, &prediction);
  Expr logits = prediction.logits;
  if (!logits.valid()) {
    logits = config.Bool("from_logits")
                 ? prediction.value
                 : Log(Clip(prediction.value, kProbabilityEpsilon, 1.0 - kProbabilityEpsilon));
  }
  const ValueType label_type = label.type();
  const ValueType type = logits.type();
  std::vector<Dim> labels = label_type.dims;
  if (labels.size() == type.dims.size() && labels.back() == Dim{1, 0}) labels.pop_back();
  if (labels != std::vector<Dim>(type.dims.begin(), type.dims.end() - 1)) {
    return InvalidArgument(
        "the label is {}, but the prediction is {}: the label must be a class number for each row "
        "of the prediction",
        TypeToString(label_type), TypeToString(type));
  }
  Expr classes = Cast(label, DType::kInt64);
  if (label_type.dims.size() != 1) classes = Reshape(classes, {-1});
  if (type.dims.size() > 2) logits = Reshape(logits, {-1, type.dims.back().size});
  return SparseSoftmaxCrossEntropy(classes, logits);
}

}  // namespace

LossClass SparseCategoricalCrossentropyLoss() {
  return {.schema = LossSchema("SparseCategoricalCrossentropy", {},
                               "Cross entropy of class numbers and the probabilities of classes.",
                               {FromLogitsArgument(), Planned("ignore_class"),
                                Planned(Int("axis", "").Default(-1))}),
          .label = LossClass::Label::kClassNumber,
          .elementwise = ElementwiseSparseCategoricalCrossentropy};
}

}  // namespace cohort
