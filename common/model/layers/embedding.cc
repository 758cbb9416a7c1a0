// Embedding (keras/src/layers/core/embedding.py). Only the rows of the batch's distinct ids are
// pulled, and only those get a gradient.
#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {

absl::StatusOr<LayerOutput> BuildEmbedding(LayerContext* context) {
  const v1::LayerSpec& spec = *context->spec;
  for (const auto& [key, value] :
       {std::pair<std::string_view, int64_t>("input_dim", spec.input_dim()),
        {"output_dim", spec.output_dim()}}) {
    if (value < 1) return InvalidArgument("{} must be positive, and is {}", key, value);
  }
  COHORT_ASSIGN_OR_RETURN(
      const ValueType type,
      context->AddVariable("embeddings", {spec.input_dim(), spec.output_dim()},
                           spec.embeddings_initializer(), "RandomUniform", true));
  const Expr ids = context->inputs[0].value;
  if (!ids.valid()) return LayerOutput{};
  const auto [keys, inverse] = Unique(Cast(ids, DType::kInt64));
  const Expr rows = context->builder->ReadRows(context->variables->back().name(), type, keys);
  return LayerOutput{Gather(rows, inverse), {}};
}

}  // namespace cohort
