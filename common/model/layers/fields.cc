#include "common/model/layers/fields.h"

#include <vector>

#include "common/graph/expr.h"

namespace cohort {

absl::StatusOr<Expr> FieldVectors(const LayerContext& context) {
  const Expr first = context.FloatInput(0);
  if (context.inputs.size() == 1 && first.rank() == 3) return first;
  std::vector<Expr> rows;
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    const Expr x = context.FloatInput(i);
    if (x.rank() != 2) {
      return InvalidArgument(
          "input {} is {}; the inputs must be vectors [batch, d], or one value [batch, fields, d]",
          i, TypeToString(x.type()));
    }
    if (x.type().dims != first.type().dims) {
      return InvalidArgument("input 0 is {} and input {} is {}: they must be equally wide",
                             TypeToString(first.type()), i, TypeToString(x.type()));
    }
    rows.push_back(x);
  }
  const int64_t width = first.type().dims[1].size;
  return Reshape(Concat(rows, 1), {-1, static_cast<int64_t>(rows.size()), width});
}

}  // namespace cohort
