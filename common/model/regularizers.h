#ifndef COHORT_COMMON_MODEL_REGULARIZERS_H_
#define COHORT_COMMON_MODEL_REGULARIZERS_H_

#include <absl/status/statusor.h>

#include <string_view>

#include "common/graph/program_builder.h"
#include "common/model/layers/layer.h"
#include "common/schema/class_registry.h"

namespace cohort {

// A regularizer of Keras: the penalty of a weight, a scalar that is added to the loss. Error:
// InvalidArgument for a weight that does not suit it.
struct RegularizerClass {
  ClassSchema schema;
  absl::StatusOr<Expr> (*penalty)(const Config& config, Expr weight) = nullptr;
};

const ClassRegistry<RegularizerClass>& Regularizers();
const SchemaSet& RegularizerSchemas();

// Computes the penalty of a weight; `config` is complete.
absl::StatusOr<Expr> Penalty(const v1::ClassConfig& config, Expr weight);

// The argument of a layer that regularizes one of its weights: "kernel_regularizer". Its default is
// none. LayerContext::Weight applies it.
Argument RegularizerArgument(std::string_view name);

// Adds the penalty of the output of a layer, divided by the number of its records, to the loss.
absl::Status AddActivityPenalty(LayerContext* context, const v1::ClassConfig& regularizer,
                                Expr output);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_REGULARIZERS_H_
