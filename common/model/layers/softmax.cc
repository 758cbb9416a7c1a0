// Softmax (keras/src/layers/activations/softmax.py).
#include <algorithm>

#include "common/graph/expr.h"
#include "common/model/activation_functions.h"

namespace cohort {
namespace {

constexpr double kMasked = -1e9;  // _large_negative_number

absl::StatusOr<LayerOutput> BuildSoftmax(LayerContext* context) {
  Expr x = context->FloatInput(0);
  const Expr mask = context->inputs[0].mask;
  if (!mask.valid()) return SoftmaxOver(x, context->config.Ints("axis"));
  const ValueType m = mask.type(), type = x.type();
  const size_t skipped = type.dims.size() - std::min(m.dims.size(), type.dims.size());
  for (size_t i = 0; i < m.dims.size(); ++i) {
    if (m.dims.size() <= type.dims.size() &&
        (m.dims[i] == Dim{1, 0} || m.dims[i] == type.dims[skipped + i])) {
      continue;
    }
    return InvalidArgument("its input {} has the mask {}, which does not broadcast to it",
                           TypeToString(type), TypeToString(m));
  }
  const auto number = [&](double value) { return context->builder->Scalar(value, x.dtype()); };
  COHORT_ASSIGN_OR_RETURN(const LayerOutput output, SoftmaxOver(Select(mask, x, number(kMasked)),
                                                                context->config.Ints("axis")));
  return Select(mask, output.value, number(0));
}

}  // namespace

LayerClass SoftmaxLayer() {
  return {.schema = LayerSchema(
              "Softmax", "exp(x), divided by its sum over the axes.",
              {Ints("axis", "The axis, or a list of them; negative ones count from the end.")
                   .Default(std::vector<int64_t>{-1})}),
          .mask = MaskRule::kPass,
          .build = BuildSoftmax};
}

}  // namespace cohort
