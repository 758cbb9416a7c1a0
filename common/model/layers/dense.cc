// Dense: activation(x kernel + bias) over the last axis (keras/src/layers/core/dense.py).
#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {

absl::StatusOr<LayerOutput> BuildDense(LayerContext* context) {
  const v1::LayerSpec& spec = *context->spec;
  if (spec.units() < 1) return InvalidArgument("units must be positive, and is {}", spec.units());
  Expr x = context->FloatInput(0);
  if (!x.valid()) return LayerOutput{};
  const ValueType type = x.type();
  if (type.dims.size() < 2) {
    return InvalidArgument("the input needs a feature axis beside the batch, and is {}",
                           TypeToString(type));
  }
  const int64_t features = type.dims.back().size;
  if (type.dims.size() > 2) x = Reshape(x, {-1, features});
  COHORT_ASSIGN_OR_RETURN(const Expr kernel,
                          context->Weight("kernel", {features, spec.units()},
                                          spec.kernel_initializer(), "GlorotUniform"));
  Expr y = MatMul(x, kernel);
  if (!spec.no_bias()) {
    COHORT_ASSIGN_OR_RETURN(
        const Expr bias, context->Weight("bias", {spec.units()}, spec.bias_initializer(), "Zeros"));
    y = y + bias;
  }
  if (type.dims.size() > 2) {
    std::vector<int64_t> dims = ReshapeDims(type.dims);
    dims.back() = spec.units();
    y = Reshape(y, std::move(dims));
  }
  return Activate(spec.activation(), {y, {}});
}

}  // namespace cohort
