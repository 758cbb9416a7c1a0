// Embedding (keras/src/layers/core/embedding.py).
#include "common/graph/expr.h"
#include "common/model/layers/masks.h"
#include "common/model/layers/table_rows.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildEmbedding(LayerContext* context) {
  COHORT_ASSIGN_OR_RETURN(const Expr rows, TableRows(context));
  LayerOutput output;
  if (rows.valid()) output.value = Gather(rows, context->places);
  if (context->config.Bool("mask_zero")) output.mask = NotEqual(context->inputs[0].value, 0);
  return output;
}

}  // namespace

LayerClass EmbeddingLayer() {
  std::vector<Argument> arguments = TableArguments();
  arguments.push_back(
      Bool("mask_zero", "True: the steps with the id 0 are masked.").Default(false));
  for (const char* planned : {"weights", "lora_rank", "lora_alpha", "quantization_config"}) {
    arguments.push_back(Planned(planned));
  }
  return {.schema =
              LayerSchema("Embedding", "The rows of a table that the input names by their numbers.",
                          std::move(arguments)),
          .takes_keys = true,
          .mask = MaskRule::kOwn,
          .build = BuildEmbedding};
}

}  // namespace cohort
