#ifndef COHORT_COMMON_MODEL_ACTIVATIONS_H_
#define COHORT_COMMON_MODEL_ACTIVATIONS_H_

#include "common/model/layers/layer.h"

namespace cohort {

// An activation function, by Keras' name in lower case.
struct ActivationClass {
  ClassSchema schema;
  // The argument has no logits. Errors: InvalidArgument.
  std::function<absl::StatusOr<LayerOutput>(const Config& config, Expr x)> apply;
};

ClassRegistry<ActivationClass>& Activations();
// The same, as the type that Object takes.
const SchemaSet& ActivationSchemas();

// Applies an activation; `config` is complete. Errors: InvalidArgument.
absl::StatusOr<LayerOutput> Activate(const v1::ClassConfig& config, LayerOutput x);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_ACTIVATIONS_H_
