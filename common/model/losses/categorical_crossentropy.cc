// CategoricalCrossentropy (keras/src/losses/losses.py, keras/src/backend/tensorflow/nn.py).
#include "common/graph/expr.h"
#include "common/model/losses/loss.h"

namespace cohort {
namespace {

absl::StatusOr<Expr> ElementwiseCategoricalCrossentropy(const Config& config,
                                                        LayerOutput prediction, Expr y) {
  const bool is_class_number = y.type().dims.size() + 1 == prediction.value.type().dims.size();
  const absl::Status fitted = FitLabel(&y, &prediction);
  if (!fitted.ok() && is_class_number) {
    return Annotate(fitted, "class numbers need SparseCategoricalCrossentropy");
  }
  COHORT_RETURN_IF_ERROR(fitted);
  const double smoothing = config.Float("label_smoothing");
  if (smoothing != 0) {
    const auto classes = static_cast<double>(prediction.value.type().dims.back().size);
    y = y * (1.0 - smoothing) + smoothing / classes;
  }
  Expr logits = prediction.logits;
  if (!logits.valid() && config.Bool("from_logits")) logits = prediction.value;
  if (logits.valid()) return -ReduceSum(y * LogSoftmax(logits), {-1});
  const Expr shares = prediction.value / ReduceSum(prediction.value, {-1}, true);
  const Expr p = Clip(shares, kProbabilityEpsilon, 1.0 - kProbabilityEpsilon);
  return -ReduceSum(y * Log(p), {-1});
}

}  // namespace

LossClass CategoricalCrossentropyLoss() {
  return {
      .schema = LossSchema("CategoricalCrossentropy", {},
                           "Cross entropy of one-hot labels and the probabilities of classes.",
                           {FromLogitsArgument(), LabelSmoothingArgument(), LastAxisArgument()}),
      .elementwise = ElementwiseCategoricalCrossentropy};
}

}  // namespace cohort
