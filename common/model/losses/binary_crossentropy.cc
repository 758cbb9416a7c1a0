// BinaryCrossentropy (keras/src/losses/losses.py). As Keras on TensorFlow, it starts from the
// logits if the prediction is a sigmoid or softmax of them, else from clipped probabilities
// (keras/src/backend/tensorflow/nn.py).
#include "common/graph/expr.h"
#include "common/model/losses/loss.h"

namespace cohort {
namespace {

absl::StatusOr<Expr> ElementwiseBinaryCrossentropy(const Config& config, LayerOutput prediction,
                                                   Expr y) {
  COHORT_RETURN_IF_ERROR(FitLabel(&y, &prediction));
  const double smoothing = config.Float("label_smoothing");
  if (smoothing != 0) y = y * (1.0 - smoothing) + 0.5 * smoothing;
  // Keras treats the logits of a softmax here like those of a sigmoid.
  if (prediction.logits.valid()) {
    return ReduceMean(SigmoidCrossEntropy(y, prediction.logits), {-1});
  }
  if (config.Bool("from_logits")) {
    return ReduceMean(SigmoidCrossEntropy(y, prediction.value), {-1});
  }
  const Expr p = Clip(prediction.value, kProbabilityEpsilon, 1.0 - kProbabilityEpsilon);
  return ReduceMean(-(y * Log(p) + (1.0 - y) * Log(1.0 - p)), {-1});
}

}  // namespace

LossClass BinaryCrossentropyLoss() {
  return {
      .schema = LossSchema("BinaryCrossentropy", {"bce", "BCE"},
                           "Cross entropy of labels 0 and 1 and their probabilities.",
                           {FromLogitsArgument(), LabelSmoothingArgument(), LastAxisArgument()}),
      .elementwise = ElementwiseBinaryCrossentropy};
}

}  // namespace cohort
