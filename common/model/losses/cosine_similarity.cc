// CosineSimilarity (keras/src/losses/losses.py).
#include "common/graph/expr.h"
#include "common/model/losses/loss.h"

namespace cohort {

absl::StatusOr<Expr> CosineOf(const Config& config, LayerOutput prediction, Expr label) {
  COHORT_RETURN_IF_ERROR(FitLabel(&label, &prediction));
  const auto rank = static_cast<int64_t>(label.rank());
  int64_t axis = config.Int("axis");
  if (axis < 0) axis += rank;
  if (axis < 1 || axis >= rank) {
    return InvalidArgument("axis {} must be an axis of {} other than the batch", config.Int("axis"),
                           TypeToString(label.type()));
  }
  const auto normalized = [axis](Expr x) {
    const Expr inverse = Rsqrt(ReduceSum(Square(x), {axis}, true));
    return x * Minimum(inverse, x.builder()->Scalar(1 / kProbabilityEpsilon, x.dtype()));
  };
  const Expr p = normalized(prediction.value);
  return ReduceSum(normalized(label) * p, {axis});
}

LossClass CosineSimilarityLoss() {
  return {.schema = LossSchema("CosineSimilarity", {},
                               "Minus the cosine of the angle between label and prediction.",
                               {Int("axis", "The axis of the vectors.").Default(-1)}),
          .elementwise = [](const Config& config, LayerOutput prediction,
                            Expr label) -> absl::StatusOr<Expr> {
            COHORT_ASSIGN_OR_RETURN(const Expr cosine, CosineOf(config, prediction, label));
            return -cosine;
          }};
}

}  // namespace cohort
