// Hinge, SquaredHinge and CategoricalHinge (keras/src/losses/losses.py).
#include "common/graph/expr.h"
#include "common/model/losses/loss.h"

namespace cohort {
namespace {

// Labels that are all 0 or 1 become -1 and 1; a batch with any other label stays as it is.
Expr ToSigns(Expr y) {
  const auto number = [&](double value) { return y.builder()->Scalar(value, y.dtype()); };
  std::vector<int64_t> axes(y.rank());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  const Expr is_bit = LogicalOr(Equal(y, number(0)), Equal(y, number(1)));
  const Expr all = ReduceMin(Cast(is_bit, y.dtype()), std::move(axes));
  return Select(Greater(all, number(0.5)), 2.0 * y - 1.0, y);
}

absl::StatusOr<Expr> Margins(LayerOutput prediction, Expr label) {
  COHORT_RETURN_IF_ERROR(FitLabel(&label, &prediction));
  const Expr margin = 1.0 - ToSigns(label) * prediction.value;
  return Maximum(margin, margin.builder()->Scalar(0, margin.dtype()));
}

absl::StatusOr<Expr> ElementwiseCategoricalHinge(const Config&, LayerOutput prediction, Expr y) {
  COHORT_RETURN_IF_ERROR(FitLabel(&y, &prediction));
  const Expr p = prediction.value;
  const Expr positive = ReduceSum(y * p, {-1}), negative = ReduceMax((1.0 - y) * p, {-1});
  return Maximum(negative - positive + 1.0, p.builder()->Scalar(0, p.dtype()));
}

}  // namespace

LossClass HingeLoss() {
  return {
      .schema =
          LossSchema("Hinge", {}, "mean(max(1 - label * prediction, 0)), labels -1 and 1.", {}),
      .elementwise = [](const Config&, LayerOutput prediction, Expr label) -> absl::StatusOr<Expr> {
        COHORT_ASSIGN_OR_RETURN(const Expr margins, Margins(prediction, label));
        return ReduceMean(margins, {-1});
      }};
}

LossClass SquaredHingeLoss() {
  return {
      .schema = LossSchema("SquaredHinge", {},
                           "mean(max(1 - label * prediction, 0)^2), labels -1 and 1.", {}),
      .elementwise = [](const Config&, LayerOutput prediction, Expr label) -> absl::StatusOr<Expr> {
        COHORT_ASSIGN_OR_RETURN(const Expr margins, Margins(prediction, label));
        return ReduceMean(Square(margins), {-1});
      }};
}

LossClass CategoricalHingeLoss() {
  return {.schema = LossSchema("CategoricalHinge", {},
                               "max(1 - the right class + the best of the others, 0).", {}),
          .elementwise = ElementwiseCategoricalHinge};
}

}  // namespace cohort
