// BinaryFocalCrossentropy and CategoricalFocalCrossentropy (keras/src/losses/losses.py).
#include "common/graph/expr.h"
#include "common/model/losses/loss.h"

namespace cohort {
namespace {

absl::StatusOr<Expr> ElementwiseBinaryFocal(const Config& config, LayerOutput prediction, Expr y) {
  COHORT_RETURN_IF_ERROR(FitLabel(&y, &prediction));
  const double smoothing = config.Float("label_smoothing");
  if (smoothing != 0) y = y * (1.0 - smoothing) + 0.5 * smoothing;
  // The sigmoid of logits remembers them, as in Keras.
  const bool from_logits = config.Bool("from_logits");
  const Expr p = from_logits ? Sigmoid(prediction.value) : prediction.value;
  const Expr logits = from_logits ? prediction.value : prediction.logits;
  Expr loss;
  if (logits.valid()) {
    loss = SigmoidCrossEntropy(y, logits);
  } else {
    const Expr inside = Clip(p, kProbabilityEpsilon, 1.0 - kProbabilityEpsilon);
    loss = -(y * Log(inside) + (1.0 - y) * Log(1.0 - inside));
  }
  const Expr of_truth = y * p + (1.0 - y) * (1.0 - p);
  loss = Pow(1.0 - of_truth, config.Float("gamma")) * loss;
  if (config.Bool("apply_class_balancing")) {
    const double alpha = config.Float("alpha");
    loss = (y * alpha + (1.0 - y) * (1.0 - alpha)) * loss;
  }
  return ReduceMean(loss, {-1});
}

absl::StatusOr<Expr> ElementwiseCategoricalFocal(const Config& config, LayerOutput prediction,
                                                 Expr y) {
  COHORT_RETURN_IF_ERROR(FitLabel(&y, &prediction));
  const double smoothing = config.Float("label_smoothing");
  const int64_t classes = prediction.value.type().dims.back().size;
  if (smoothing != 0) y = y * (1.0 - smoothing) + smoothing / static_cast<double>(classes);
  const std::vector<double> alpha = config.Floats("alpha");
  if (alpha.size() != 1 && static_cast<int64_t>(alpha.size()) != classes) {
    return InvalidArgument("alpha has {} numbers, and the prediction {} classes", alpha.size(),
                           classes);
  }
  const Expr p = config.Bool("from_logits") ? Softmax(prediction.value) : prediction.value;
  const Expr shares =
      Clip(p / ReduceSum(p, {-1}, true), kProbabilityEpsilon, 1.0 - kProbabilityEpsilon);
  const auto size = static_cast<int64_t>(alpha.size());
  const Expr factor = Cast(
      p.builder()->Constant(Tensor::FromValues<double>({size}, std::span<const double>(alpha))),
      p.dtype());
  const Expr weight = Pow(1.0 - shares, config.Float("gamma")) * factor;
  return ReduceSum(weight * -(y * Log(shares)), {-1});
}

Argument Gamma() { return Float("gamma", "How much less a good prediction counts.").Default(2.0); }

}  // namespace

LossClass BinaryFocalCrossentropyLoss() {
  return {
      .schema = LossSchema(
          "BinaryFocalCrossentropy", {},
          "Binary cross entropy, in which good predictions count less.",
          {Bool("apply_class_balancing", "True: the label 1 has the weight alpha.").Default(false),
           Float("alpha", "The weight of the label 1; that of 0 is 1 - alpha.").Default(0.25),
           Gamma(), FromLogitsArgument(), LabelSmoothingArgument(), LastAxisArgument()}),
      .elementwise = ElementwiseBinaryFocal};
}

LossClass CategoricalFocalCrossentropyLoss() {
  v1::ConfigValue alpha;
  *alpha.mutable_list()->add_values() = ConfigOf(0.25);
  return {.schema = LossSchema(
              "CategoricalFocalCrossentropy", {},
              "Categorical cross entropy, in which good predictions count less.",
              {Floats("alpha", "The weight of all classes, or a list with that of each.")
                   .Default(std::move(alpha)),
               Gamma(), FromLogitsArgument(), LabelSmoothingArgument(), LastAxisArgument()}),
          .elementwise = ElementwiseCategoricalFocal};
}

}  // namespace cohort
