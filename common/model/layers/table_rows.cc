#include "common/model/layers/table_rows.h"

#include "common/graph/expr.h"
#include "common/model/regularizers.h"
#include "common/optimizers/constraints.h"

namespace cohort {

std::vector<Argument> TableArguments() {
  return {Int("input_dim", "Rows of the table.").AtLeast(1),
          Int("output_dim", "Columns of the table.").AtLeast(1),
          InitializerArgument("embeddings_initializer", "RandomUniform", "First table."),
          RegularizerArgument("embeddings_regularizer"),
          ConstraintArgument("embeddings_constraint")};
}

absl::StatusOr<Expr> TableRows(LayerContext* context) {
  const Config& config = context->config;
  const std::vector<int64_t> dims = {config.Int("input_dim"), config.Int("output_dim")};
  if (config.Has("embeddings_regularizer") && context->trainable()) {
    COHORT_ASSIGN_OR_RETURN(const Expr table,
                            context->Weight("embeddings", dims, "embeddings_initializer"));
    return context->keys.valid() ? Gather(table, context->keys) : Expr();
  }
  COHORT_ASSIGN_OR_RETURN(
      const ValueType type,
      context->AddVariable("embeddings", dims, "embeddings_initializer", /*row_reads=*/true));
  if (!context->keys.valid()) return Expr();
  return context->builder->ReadRows(context->VariableName("embeddings"), type, context->keys);
}

}  // namespace cohort
