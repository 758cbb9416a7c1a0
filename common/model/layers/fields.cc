#include "common/model/layers/fields.h"

#include <vector>

#include "common/graph/expr.h"

namespace cohort {

absl::StatusOr<Expr> FieldVectors(const LayerContext& context) {
  std::vector<Expr> fields;
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    const Expr x = context.FloatInput(i);
    const ValueType type = x.type();
    if (x.rank() != 2 && x.rank() != 3) {
      return InvalidArgument("input {} is {}, and must be [batch, d] or [batch, fields, d]", i,
                             TypeToString(type));
    }
    fields.push_back(x.rank() == 3 ? x : Reshape(x, {-1, 1, type.dims[1].size}));
    if (type.dims.back() != fields[0].type().dims.back()) {
      return InvalidArgument("input 0 is {} and input {} is {}: vectors must be equally wide",
                             TypeToString(context.inputs[0].value.type()), i, TypeToString(type));
    }
  }
  return fields.size() == 1 ? fields[0] : Concat(fields, 1);
}

}  // namespace cohort
