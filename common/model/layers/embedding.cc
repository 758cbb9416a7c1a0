// Embedding (keras/src/layers/core/embedding.py). Only the rows of the batch's distinct ids are
// pulled, and only those get a gradient. A regularizer depends on all rows, so with one the whole
// table is pulled, and all of it gets a gradient, as in Keras.
#include "common/graph/expr.h"
#include "common/model/layers/masks.h"
#include "common/model/regularizers.h"
#include "common/optimizers/constraints.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> ReadTable(LayerContext* context) {
  const Config& config = context->config;
  if (config.Has("embeddings_regularizer") && context->trainable()) {
    COHORT_ASSIGN_OR_RETURN(
        const Expr table,
        context->Weight("embeddings", {config.Int("input_dim"), config.Int("output_dim")},
                        "embeddings_initializer"));
    if (!context->keys.valid()) return LayerOutput{};
    return Gather(Gather(table, context->keys), context->places);
  }
  COHORT_ASSIGN_OR_RETURN(
      const ValueType type,
      context->AddVariable("embeddings", {config.Int("input_dim"), config.Int("output_dim")},
                           "embeddings_initializer", true));
  if (!context->keys.valid()) return LayerOutput{};
  const Expr rows =
      context->builder->ReadRows(context->VariableName("embeddings"), type, context->keys);
  return Gather(rows, context->places);
}

absl::StatusOr<LayerOutput> BuildEmbedding(LayerContext* context) {
  COHORT_ASSIGN_OR_RETURN(LayerOutput output, ReadTable(context));
  if (context->config.Bool("mask_zero")) output.mask = NotEqual(context->inputs[0].value, 0);
  return output;
}

}  // namespace

LayerClass EmbeddingLayer() {
  return {.schema = LayerSchema(
              "Embedding", "The rows of a table that the input names by their numbers.",
              {Int("input_dim", "Rows of the table.").AtLeast(1),
               Int("output_dim", "Columns of the table.").AtLeast(1),
               InitializerArgument("embeddings_initializer", "RandomUniform", "First table."),
               RegularizerArgument("embeddings_regularizer"),
               ConstraintArgument("embeddings_constraint"),
               Bool("mask_zero", "True: the steps with the id 0 are masked.").Default(false),
               Planned("weights"), Planned("lora_rank"), Planned("lora_alpha"),
               Planned("quantization_config")}),
          .takes_keys = true,
          .mask = MaskRule::kOwn,
          .build = BuildEmbedding};
}

}  // namespace cohort
