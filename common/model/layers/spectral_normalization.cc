// SpectralNormalization (keras/src/layers/normalization/spectral_normalization.py): a step of
// training divides the kernel of a layer by its largest singular value, which power iterations
// estimate, and its gradient updates the divided kernel.
//
// Keras assigns the divided kernel before the update. A step has one push for a variable, so the
// kernel is the sum of two here: "kernel", to which the gradient is pushed, and "kernel_offset", to
// which a step assigns what is missing. The update of an optimizer depends on gradients alone
// (except weight decay), so the sum is Keras' kernel, also if other workers pushed meanwhile.
#include "common/graph/expr.h"
#include "common/model/layers/layer_schemas.h"
#include "common/model/layers/masks.h"

namespace cohort {
namespace {

Expr Read(const LayerContext& context, std::string_view suffix, const ValueType& type) {
  return context.builder->Read(context.VariableName(suffix), type);
}

// The variable becomes the value; in mode sync, the mean of the workers' values.
void PushAssignment(LayerContext* context, std::string_view suffix, Expr value) {
  if (!value.valid()) return;
  context->builder->AddPush(
      {.variable = context->builder->DeclareVariable(context->VariableName(suffix), value.type()),
       .kind = PushKind::kEma,
       .value = value.id(),
       .momentum = 0});
}

// x divided by its length.
Expr UnitVector(Expr x) {
  const Expr length = Sqrt(ReduceSum(Square(x)));
  if (!length.valid()) return length;
  constexpr double kEpsilon = 1e-7;  // as Keras
  return x / Maximum(length, x.builder()->Scalar(kEpsilon, x.dtype()));
}

struct Normalized {
  Expr kernel, vector;
};

// normalized_weights of Keras. A kernel of zeros stays.
Normalized Normalize(Expr kernel, Expr vector, int64_t iterations) {
  const int64_t columns = kernel.type().dims.back().size;
  const Expr weights = Reshape(kernel, {CapacityElements(kernel.type()) / columns, columns});
  Expr u = vector, v;
  for (int64_t i = 0; i < iterations; ++i) {
    v = UnitVector(MatMul(u, weights, false, true));
    u = UnitVector(MatMul(v, weights));
  }
  const Expr sigma = ReduceSum(MatMul(v, weights) * u);
  if (!sigma.valid()) return {};
  const Expr zero = kernel.builder()->Scalar(0, kernel.dtype());
  const Expr is_zero = Equal(ReduceSum(Abs(kernel)), zero);
  const Expr divisor = Select(is_zero, kernel.builder()->Scalar(1, kernel.dtype()), sigma);
  return {kernel / divisor, Select(is_zero, vector, u)};
}

absl::StatusOr<LayerOutput> BuildSpectralNormalization(LayerContext* context) {
  const v1::ClassConfig& inner = context->config.Object("layer");
  COHORT_ASSIGN_OR_RETURN(const LayerClass* layer_class, Layers().Find(inner.class_name()));
  const std::string& class_name = layer_class->schema.name;
  if (layer_class->build == nullptr || layer_class->takes_keys || layer_class->min_inputs > 1 ||
      class_name == "SpectralNormalization") {
    return InvalidArgument("{} inside SpectralNormalization is not supported", class_name);
  }
  if (context->training && context->is_shared) {
    return InvalidArgument(
        "it is called twice, and its kernel is divided once in a step; use two layers");
  }
  v1::ClassConfig config = inner;
  if (!context->trainable()) (*config.mutable_config())["trainable"] = ConfigOf(false);
  LayerContext wrapped = context->Inner(config, InnerName(context->config, "layer"));
  if (wrapped.config.Has("kernel_constraint")) {
    return Unimplemented(
        "kernel_constraint inside SpectralNormalization is not supported: leave it out");
  }
  wrapped.inputs = context->inputs;
  bool has_kernel = false;
  wrapped.on_weight = [&](std::string_view suffix, Expr read) -> absl::StatusOr<Expr> {
    if (suffix != "kernel" || !read.valid()) return read;
    has_kernel = true;
    Dims dims;
    for (const Dim& dim : read.type().dims) dims.push_back(dim.size);
    COHORT_ASSIGN_OR_RETURN(
        const ValueType vector,
        context->AddState("vector_u", {1, dims.back()},
                          ClassOf("TruncatedNormal", {{"stddev", ConfigOf(0.02)}})));
    COHORT_ASSIGN_OR_RETURN(const ValueType type,
                            wrapped.AddState("kernel_offset", dims, ClassOf("Zeros")));
    const Expr kernel = read + Read(wrapped, "kernel_offset", type);
    if (!context->training) return kernel;
    const Normalized made = Normalize(kernel, Read(*context, "vector_u", vector),
                                      context->config.Int("power_iterations"));
    PushAssignment(context, "vector_u", made.vector);
    const Expr offset = StopGradient(made.kernel - read);
    PushAssignment(&wrapped, "kernel_offset", offset);
    return read + offset;
  };
  auto output = BuildLayer(*layer_class, &wrapped);
  if (!output.ok()) return Annotate(output.status(), class_name);
  if (has_kernel) return output;
  return InvalidArgument("{} has no kernel that SpectralNormalization could divide", class_name);
}

}  // namespace

LayerClass SpectralNormalizationLayer() {
  return {.schema = LayerSchema(
              "SpectralNormalization",
              "Divides the kernel of a layer by its largest singular value in training. The kernel "
              "is the sum of the variables kernel and kernel_offset.",
              {Object("layer", LayerSchemas, "The layer, with its arguments; it has a kernel."),
               InnerNameArgument("layer"),
               Int("power_iterations", "Iterations of a step that estimate this value.")
                   .Default(1)
                   .AtLeast(1)}),
          .mask = MaskRule::kPass,
          .build = BuildSpectralNormalization};
}

}  // namespace cohort
