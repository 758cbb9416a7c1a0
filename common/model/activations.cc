// Activations (keras/src/activations/activations.py).
#include "common/model/activations.h"

#include "common/graph/expr.h"

namespace cohort {
namespace {

constexpr std::string_view kPlannedActivations =
    "celu elu exponential gelu glu hard_shrink hard_sigmoid hard_silu hard_swish hard_tanh "
    "leaky_relu log_sigmoid log_softmax mish relu6 selu silu soft_shrink softplus softsign "
    "sparse_plus sparsemax squareplus swish tanh_shrink threshold";

absl::StatusOr<LayerOutput> ApplySoftmax(Expr x) {
  if (x.valid() && x.rank() < 2) {
    return InvalidArgument("softmax needs two axes at least, not {}", TypeToString(x.type()));
  }
  return LayerOutput{Softmax(x), x};
}

std::vector<ActivationClass> ActivationClasses() {
  return {
      {{"linear", {}, "x", {}},
       [](const Config&, Expr x) {
         return LayerOutput{x, {}};
       }},
      {{"relu", {}, "max(x, 0)", {}},
       [](const Config&, Expr x) {
         return LayerOutput{Relu(x), {}};
       }},
      {{"sigmoid", {}, "1 / (1 + exp(-x))", {}},
       [](const Config&, Expr x) {
         return LayerOutput{Sigmoid(x), x};
       }},
      {{"softmax", {}, "exp(x), divided by its sum over the last axis", {}},
       [](const Config&, Expr x) { return ApplySoftmax(x); }},
      {{"tanh", {}, "The hyperbolic tangent.", {}},
       [](const Config&, Expr x) {
         return LayerOutput{Tanh(x), {}};
       }},
  };
}

}  // namespace

ClassRegistry<ActivationClass>& Activations() {
  static auto& activations =
      *new ClassRegistry<ActivationClass>("activation", SchemaSet::Spelling::kExact,
                                          std::string(kPlannedActivations), ActivationClasses());
  return activations;
}

const SchemaSet& ActivationSchemas() { return Activations(); }

absl::StatusOr<LayerOutput> Activate(const v1::ClassConfig& config, LayerOutput x) {
  COHORT_ASSIGN_OR_RETURN(const ActivationClass* activation,
                          Activations().Find(config.class_name()));
  if (!x.value.valid() || config.class_name() == "linear") return x;
  return activation->apply(Config(config), x.value);
}

}  // namespace cohort
