// CrossLayer: a layer of a cross network (DCN v2, Wang et al., 2020, arXiv:2008.13535), with the
// arguments of keras_rs' FeatureCross.
#include "common/graph/expr.h"
#include "common/model/activations.h"
#include "common/model/regularizers.h"

namespace cohort {
namespace {

// x0 * (activation(x kernel + bias) + diag_scale x) + x.
absl::StatusOr<LayerOutput> BuildCrossLayer(LayerContext* context) {
  const Config& config = context->config;
  const Expr x0 = context->FloatInput(0);
  const Expr x = context->inputs.size() > 1 ? context->FloatInput(1) : x0;
  if (x0.rank() != 2 || x.type().dims != x0.type().dims) {
    return InvalidArgument(
        "its inputs must be two values [batch, features] of one shape, not {}",
        x.type().dims == x0.type().dims
            ? TypeToString(x0.type())
            : fmt::format("{} and {}", TypeToString(x0.type()), TypeToString(x.type())));
  }
  const int64_t features = x.type().dims[1].size;
  int64_t rows = features;
  Expr y = x;
  if (!config.IsNone("projection_dim")) {
    rows = config.Int("projection_dim");
    COHORT_ASSIGN_OR_RETURN(const Expr projection,
                            context->Weight("projection", {features, rows}, "kernel_initializer"));
    y = MatMul(y, projection);
  }
  COHORT_ASSIGN_OR_RETURN(const Expr kernel,
                          context->Weight("kernel", {rows, features}, "kernel_initializer"));
  y = MatMul(y, kernel);
  if (config.Bool("use_bias")) {
    COHORT_ASSIGN_OR_RETURN(const Expr bias,
                            context->Weight("bias", {features}, "bias_initializer"));
    y = y + bias;
  }
  COHORT_ASSIGN_OR_RETURN(const LayerOutput activated,
                          Activate(config.Object("pre_activation"), y));
  y = activated.value;
  if (const double scale = config.Float("diag_scale"); scale != 0) y = y + x * scale;
  return x0 * y + x;
}

}  // namespace

LayerClass CrossLayerLayer() {
  return {.schema = LayerSchema(
              "CrossLayer",
              "x0 (x kernel + bias + diag_scale x) + x of the inputs x0 and x [batch, features]; "
              "one input is both.",
              {Int("projection_dim",
                   "The kernel is the product of a `projection` to this number of features and a "
                   "`kernel` back; none: it has full rank.")
                   .AtLeast(1)
                   .Optional(),
               Float("diag_scale", "What is added to the diagonal of the kernel.")
                   .Default(0)
                   .AtLeast(0),
               Bool("use_bias", "False: no bias.").Default(true),
               ActivationArgument("pre_activation", "linear", "Of x kernel + bias."),
               InitializerArgument("kernel_initializer", "GlorotUniform", "First kernels."),
               InitializerArgument("bias_initializer", "Zeros", "First bias."),
               RegularizerArgument("kernel_regularizer"), RegularizerArgument("bias_regularizer")}),
          .max_inputs = 2,
          .build = BuildCrossLayer};
}

}  // namespace cohort
