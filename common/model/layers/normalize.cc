#include "common/model/layers/normalize.h"

#include "common/graph/expr.h"

namespace cohort {

Expr UnitLength(Expr x, std::vector<int64_t> axes, double epsilon) {
  if (!x.valid()) return {};
  // Before the root: at 0 the root has no finite slope.
  const Expr least = x.builder()->Scalar(epsilon * epsilon, x.dtype());
  return x / Sqrt(Maximum(ReduceSum(Square(x), std::move(axes), true), least));
}

Expr Standardized(Expr x, const std::vector<int64_t>& axes, double epsilon) {
  const Expr centered = x - ReduceMean(x, axes, true);
  const Expr variance = ReduceMean(Square(centered), axes, true);
  return centered * (1.0 / Sqrt(variance + epsilon));
}

}  // namespace cohort
