// Dice and Tversky (keras/src/losses/losses.py): losses of overlapping regions, as in segmentation.
#include "common/graph/expr.h"
#include "common/model/losses/loss.h"

namespace cohort {
namespace {

// A sum over the argument `axis`; none: over everything, so the batch has one loss.
absl::StatusOr<std::vector<int64_t>> AxesOfRegion(const Config& config, const ValueType& type) {
  const auto rank = static_cast<int64_t>(type.dims.size());
  std::vector<int64_t> axes;
  if (config.IsNone("axis")) {
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
    return axes;
  }
  for (int64_t axis : config.Ints("axis")) {
    if (axis < 0) axis += rank;
    if (axis < 1 || axis >= rank) {
      return InvalidArgument(
          "axis {} must be an axis of {} other than the batch; without `axis` the whole batch has "
          "one loss",
          axis, TypeToString(type));
    }
    axes.push_back(axis);
  }
  return axes;
}

absl::StatusOr<Expr> ElementwiseDice(const Config& config, LayerOutput prediction, Expr y) {
  COHORT_RETURN_IF_ERROR(FitLabel(&y, &prediction));
  COHORT_ASSIGN_OR_RETURN(const auto axes, AxesOfRegion(config, y.type()));
  const Expr p = prediction.value;
  const Expr sizes = ReduceSum(y, axes) + ReduceSum(p, axes) + kProbabilityEpsilon;
  return 1.0 - 2.0 * ReduceSum(y * p, axes) / sizes;
}

absl::StatusOr<Expr> ElementwiseTversky(const Config& config, LayerOutput prediction, Expr y) {
  COHORT_RETURN_IF_ERROR(FitLabel(&y, &prediction));
  COHORT_ASSIGN_OR_RETURN(const auto axes, AxesOfRegion(config, y.type()));
  const Expr p = prediction.value;
  const Expr both = ReduceSum(y * p, axes);
  // Keras calls the part of the label that is not predicted `fp`.
  const Expr of_label = ReduceSum((1.0 - p) * y, axes),
             of_prediction = ReduceSum(p * (1.0 - y), axes);
  return 1.0 - both / (both + of_label * config.Float("alpha") +
                       of_prediction * config.Float("beta") + kProbabilityEpsilon);
}

Argument RegionAxes() {
  return Ints("axis", "The axes of a region. None: all, and the batch is one region.").Optional();
}

}  // namespace

LossClass DiceLoss() {
  return {
      .schema = LossSchema("Dice", {}, "1 - 2 * overlap / (label + prediction).", {RegionAxes()}),
      .elementwise = ElementwiseDice};
}

LossClass TverskyLoss() {
  return {
      .schema = LossSchema(
          "Tversky", {}, "1 - overlap / (overlap + alpha * missed + beta * false).",
          {Float("alpha", "The weight of what the prediction misses.").Default(0.5),
           Float("beta", "The weight of what is predicted falsely.").Default(0.5), RegionAxes()}),
      .elementwise = ElementwiseTversky};
}

}  // namespace cohort
