// ReversibleEmbedding (keras/src/layers/core/reversible_embedding.py): a table that turns ids into
// vectors, and vectors into logits of ids. The product needs all rows, so a step pulls the whole
// table, and all of it gets a gradient, as in Keras.
#include "common/graph/expr.h"
#include "common/model/layers/masks.h"
#include "common/model/regularizers.h"
#include "common/optimizers/constraints.h"

namespace cohort {
namespace {

// x [..., output_dim] as logits [..., input_dim].
Expr Logits(const Config& config, Expr x, Expr table, Expr reverse) {
  std::vector<int64_t> dims = ReshapeDims(x.type().dims);
  const bool is_tied = !reverse.valid();
  const Expr y = MatMul(Reshape(x, {-1, dims.back()}), is_tied ? table : reverse, false,
                        /*transpose_b=*/is_tied);
  dims.back() = config.Int("input_dim");
  const Expr logits = Reshape(y, std::move(dims));
  if (config.IsNone("logit_soft_cap")) return logits;
  const double cap = config.Float("logit_soft_cap");
  return Tanh(logits / cap) * cap;
}

absl::StatusOr<LayerOutput> BuildReversibleEmbedding(LayerContext* context) {
  const Config& config = context->config;
  const int64_t rows = config.Int("input_dim"), columns = config.Int("output_dim");
  COHORT_ASSIGN_OR_RETURN(const Expr table,
                          context->Weight("embeddings", {rows, columns}, "embeddings_initializer"));
  Expr reverse;
  if (!config.Bool("tie_weights")) {
    COHORT_ASSIGN_OR_RETURN(reverse, context->WeightOf("reverse_embeddings", {columns, rows},
                                                       config.Object("embeddings_initializer")));
  }
  if (!config.Bool("reverse")) {
    const Expr ids = context->inputs[0].value;
    LayerOutput output(Gather(table, Cast(ids, DType::kInt64)));
    if (config.Bool("mask_zero")) output.mask = NotEqual(ids, 0);
    return output;
  }
  const Expr x = context->FloatInput(0);
  if (x.rank() < 2 || x.type().dims.back().size != columns) {
    return InvalidArgument("with reverse: true its input is [batch, ..., {}], and is {}", columns,
                           TypeToString(x.type()));
  }
  if (config.Has("reverse_dtype") && config.String("reverse_dtype") != DTypeName(context->floatx)) {
    return InvalidArgument("reverse_dtype must be that of the model, {}",
                           DTypeName(context->floatx));
  }
  return Logits(config, x, table, reverse);
}

}  // namespace

LayerClass ReversibleEmbeddingLayer() {
  return {.schema = LayerSchema(
              "ReversibleEmbedding",
              "The rows of a table that the input names; with reverse, the products with all rows.",
              {Int("input_dim", "Rows of the table.").AtLeast(1),
               Int("output_dim", "Columns of the table.").AtLeast(1),
               Bool("tie_weights", "False: another table for reverse.").Default(true),
               InitializerArgument("embeddings_initializer", "RandomUniform", "First table."),
               RegularizerArgument("embeddings_regularizer"),
               ConstraintArgument("embeddings_constraint"),
               Bool("mask_zero", "True: the steps with the id 0 are masked.").Default(false),
               String("reverse_dtype", "Only the dtype of the model.")
                   .Optional()
                   .OneOf({"float32", "float64"}),
               Float("logit_soft_cap", "c: logits become c tanh(logits / c); none: they stay.")
                   .Optional(),
               Bool("reverse", "Of a call: True turns vectors into logits.").Default(false),
               Planned("weights"), Planned("lora_rank"), Planned("lora_alpha"),
               Planned("quantization_config")}),
          .mask = MaskRule::kOwn,
          .call_arguments = {"reverse"},
          .build = BuildReversibleEmbedding};
}

}  // namespace cohort
