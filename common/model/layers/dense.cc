// Dense: activation(x kernel + bias) over the last axis (keras/src/layers/core/dense.py).
#include "common/graph/expr.h"
#include "common/model/activations.h"
#include "common/model/regularizers.h"
#include "common/optimizers/constraints.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildDense(LayerContext* context) {
  const Config& config = context->config;
  const int64_t units = config.Int("units");
  Expr x = context->FloatInput(0);
  const ValueType type = x.type();
  if (type.dims.size() < 2) {
    return InvalidArgument("the input needs a feature axis beside the batch, and is {}",
                           TypeToString(type));
  }
  const int64_t features = type.dims.back().size;
  if (type.dims.size() > 2) x = Reshape(x, {-1, features});
  COHORT_ASSIGN_OR_RETURN(const Expr kernel,
                          context->Weight("kernel", {features, units}, "kernel_initializer"));
  Expr y = MatMul(x, kernel);
  if (config.Bool("use_bias")) {
    COHORT_ASSIGN_OR_RETURN(const Expr bias, context->Weight("bias", {units}, "bias_initializer"));
    y = y + bias;
  }
  if (type.dims.size() > 2) {
    std::vector<int64_t> dims = ReshapeDims(type.dims);
    dims.back() = units;
    y = Reshape(y, std::move(dims));
  }
  return Activate(config.Object("activation"), y);
}

}  // namespace

LayerClass DenseLayer() {
  return {.schema = LayerSchema(
              "Dense", "activation(x kernel + bias) over the last axis.",
              {Int("units", "Size of the output.").AtLeast(1),
               ActivationArgument("activation", "linear", "The activation."),
               Bool("use_bias", "False: no bias.").Default(true),
               InitializerArgument("kernel_initializer", "GlorotUniform", "First kernel."),
               InitializerArgument("bias_initializer", "Zeros", "First bias."),
               RegularizerArgument("kernel_regularizer"), RegularizerArgument("bias_regularizer"),
               ConstraintArgument("kernel_constraint"), ConstraintArgument("bias_constraint"),
               Planned("lora_rank"), Planned("lora_alpha"), Planned("quantization_config")}),
          .mask = MaskRule::kPass,
          .build = BuildDense};
}

}  // namespace cohort
