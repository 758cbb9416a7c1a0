// An Embedding whose ids nobody has listed. An id has a row from its first update on.
#include "common/graph/expr.h"
#include "common/model/layers/masks.h"
#include "common/model/layers/table_rows.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildDynamicEmbedding(LayerContext* context) {
  COHORT_ASSIGN_OR_RETURN(const Expr rows, DynamicTableRows(context));
  LayerOutput output;
  if (rows.valid()) output.value = Gather(rows, context->places);
  if (context->config.Bool("mask_zero")) output.mask = NotEqual(context->inputs[0].value, 0);
  return output;
}

}  // namespace

LayerClass DynamicEmbeddingLayer() {
  std::vector<Argument> arguments = DynamicTableArguments();
  arguments.push_back(
      Bool("mask_zero", "True: the steps with the id 0 are masked.").Default(false));
  return {
      .schema = LayerSchema(
          "DynamicEmbedding",
          "The rows of a table that the input names by ids of 64 bits, which nobody has listed: "
          "an id has a row from its first update on. The lowest 62 bits of an id count.",
          std::move(arguments)),
      .takes_keys = true,
      .unbounded = true,
      .mask = MaskRule::kOwn,
      .build = BuildDynamicEmbedding};
}

}  // namespace cohort
