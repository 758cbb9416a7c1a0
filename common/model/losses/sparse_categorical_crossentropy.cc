// SparseCategoricalCrossentropy (keras/src/losses/losses.py, keras/src/backend/tensorflow/nn.py).
#include "common/graph/expr.h"
#include "common/model/losses/loss.h"

namespace cohort {
namespace {

absl::StatusOr<LossElements> ElementwiseSparseCategoricalCrossentropy(const Config& config,
                                                                      LayerOutput prediction,
                                                                      Expr label) {
  AlignRanks(&label, &prediction);
  const bool ignores = !config.IsNone("ignore_class");
  Expr logits = prediction.logits;
  // Keras masks the predictions of ignored labels, and then knows no logits of them.
  if (!logits.valid() || ignores) {
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
        "of the prediction{}",
        TypeToString(label_type), TypeToString(type),
        labels == type.dims ? "; one-hot labels need CategoricalCrossentropy" : "");
  }
  Expr valid;
  if (ignores) {
    const auto number = [&](double value) { return label.builder()->Scalar(value, type.dtype); };
    const Expr given = Cast(label, type.dtype);
    valid = LogicalNot(Equal(given, number(static_cast<double>(config.Int("ignore_class")))));
    label = Select(valid, given, number(0));
  }
  Expr classes = Cast(label, DType::kInt64);
  if (label_type.dims.size() != 1) classes = Reshape(classes, {-1});
  if (type.dims.size() > 2) logits = Reshape(logits, {-1, type.dims.back().size});
  Expr losses = SparseSoftmaxCrossEntropy(classes, logits);
  if (type.dims.size() > 2) losses = Reshape(losses, ReshapeDims(labels));
  if (!ignores) return losses;
  Expr mask = Cast(valid, type.dtype);
  if (label_type.dims != labels) mask = Reshape(mask, ReshapeDims(labels));
  return LossElements{losses * mask, mask};
}

}  // namespace

LossClass SparseCategoricalCrossentropyLoss() {
  return {.schema =
              LossSchema("SparseCategoricalCrossentropy", {},
                         "Cross entropy of class numbers and the probabilities of classes.",
                         {FromLogitsArgument(),
                          Int("ignore_class", "A class number whose rows do not count.").Optional(),
                          LastAxisArgument()}),
          .label = LossClass::Label::kClassNumber,
          .elementwise = ElementwiseSparseCategoricalCrossentropy};
}

}  // namespace cohort
