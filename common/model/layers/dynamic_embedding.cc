// An Embedding whose ids nobody has listed: a table without bounds (common/tensor/table_rows.h). An
// id has a row from its first update on.
#include <algorithm>
#include <array>
#include <string_view>

#include "common/graph/expr.h"
#include "common/model/layers/masks.h"
#include "common/optimizers/constraints.h"
#include "common/tensor/table_rows.h"

namespace cohort {
namespace {

// Those whose value of an element depends on its number alone.
constexpr std::array<std::string_view, 6> kInitializers = {
    "Zeros", "Ones", "Constant", "RandomUniform", "RandomNormal", "TruncatedNormal"};

absl::StatusOr<LayerOutput> BuildDynamicEmbedding(LayerContext* context) {
  const Config& config = context->config;
  const std::string& initializer = config.Object("embeddings_initializer").class_name();
  if (std::ranges::find(kInitializers, initializer) == kInitializers.end()) {
    return InvalidArgument(
        "embeddings_initializer: {} depends on the number of rows, which a table without bounds "
        "does not have; use {}",
        initializer, fmt::join(kInitializers, ", "));
  }
  COHORT_ASSIGN_OR_RETURN(const ValueType type,
                          context->AddVariable("embeddings", {kTableRows, config.Int("output_dim")},
                                               "embeddings_initializer", true));
  LayerOutput output;
  if (context->keys.valid()) {
    const Expr rows =
        context->builder->ReadRows(context->VariableName("embeddings"), type, context->keys);
    output = Gather(rows, context->places);
  }
  if (config.Bool("mask_zero")) output.mask = NotEqual(context->inputs[0].value, 0);
  return output;
}

}  // namespace

LayerClass DynamicEmbeddingLayer() {
  return {
      .schema = LayerSchema(
          "DynamicEmbedding",
          "The rows of a table that the input names by ids of 64 bits, which nobody has listed: "
          "an id has a row from its first update on. The lowest 62 bits of an id count.",
          {Int("output_dim", "Columns of the table.").AtLeast(1),
           InitializerArgument("embeddings_initializer", "RandomUniform", "First row of an id."),
           ConstraintArgument("embeddings_constraint"),
           Bool("mask_zero", "True: the steps with the id 0 are masked.").Default(false)}),
      .takes_keys = true,
      .unbounded = true,
      .mask = MaskRule::kOwn,
      .build = BuildDynamicEmbedding};
}

}  // namespace cohort
