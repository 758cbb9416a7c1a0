// Attention and AdditiveAttention (keras/src/layers/attention/attention.py, additive_attention.py).
#include "common/graph/expr.h"
#include "common/model/layers/attention_masks.h"
#include "common/model/layers/masks.h"

namespace cohort {
namespace {

// [batch, queries, 1, features] + [batch, 1, keys, features]
Expr SumOfPairs(Expr query, Expr key) {
  std::vector<int64_t> q = ReshapeDims(query.type().dims), k = ReshapeDims(key.type().dims);
  q.insert(q.begin() + 2, 1);
  k.insert(k.begin() + 1, 1);
  return Reshape(query, std::move(q)) + Reshape(key, std::move(k));
}

// Scores [batch, queries, keys].
using ScoreFn = absl::StatusOr<Expr> (*)(LayerContext* context, Expr query, Expr key);

absl::StatusOr<Expr> DotScores(LayerContext* context, Expr query, Expr key) {
  const bool concat = context->config.String("score_mode") == "concat";
  Expr scale;
  if (context->config.Bool("use_scale")) {
    COHORT_ASSIGN_OR_RETURN(scale, context->WeightOf("scale", {}, ClassOf("Ones")));
  }
  if (!concat) {
    const Expr scores = BatchMatMul(query, key, false, true);
    return scale.valid() ? scores * scale : scores;
  }
  COHORT_ASSIGN_OR_RETURN(const Expr weight,
                          context->WeightOf("concat_score_weight", {}, ClassOf("Ones")));
  const Expr pairs = SumOfPairs(query, key);
  return weight * ReduceSum(Tanh(scale.valid() ? scale * pairs : pairs), {-1});
}

absl::StatusOr<Expr> AdditiveScores(LayerContext* context, Expr query, Expr key) {
  const Expr pairs = Tanh(SumOfPairs(query, key));
  if (!context->config.Bool("use_scale")) return ReduceSum(pairs, {-1});
  COHORT_ASSIGN_OR_RETURN(
      const Expr scale,
      context->WeightOf("scale", {query.type().dims.back().size}, ClassOf("GlorotUniform")));
  return ReduceSum(scale * pairs, {-1});
}

absl::StatusOr<LayerOutput> BuildAttention(LayerContext* context, ScoreFn score) {
  const Config& config = context->config;
  const LayerOutput *q = context->Named("query"), *v = context->Named("value"),
                    *k = context->Named("key");
  if (q == nullptr || v == nullptr) return InvalidArgument("its inputs are query, value and key");
  const Expr query = Cast(q->value, context->floatx), value = Cast(v->value, context->floatx);
  const Expr key = k == nullptr ? value : Cast(k->value, context->floatx);
  for (const Expr& x : {query, value, key}) {
    if (x.rank() == 3) continue;
    return InvalidArgument("its inputs are [batch, steps, features], not {}",
                           TypeToString(x.type()));
  }
  COHORT_ASSIGN_OR_RETURN(Expr scores, score(context, query, key));
  if (!scores.valid()) return LayerOutput{};
  const ValueType type = scores.type();
  Expr mask = v->mask;
  if (mask.valid()) {
    COHORT_RETURN_IF_ERROR(CheckMask(mask, value.type()));
    std::vector<int64_t> dims = ReshapeDims(mask.type().dims);
    dims.insert(dims.begin() + 1, 1);
    mask = Reshape(mask, std::move(dims));
  }
  if (config.Bool("use_causal_mask")) {
    mask = BothMasks(mask, CausalMask(context->builder, type.dims[1].size, type.dims[2].size));
  }
  constexpr double kMaskedScore = 1e9;
  if (mask.valid()) scores = Select(mask, scores, scores - kMaskedScore);
  const Expr weights = Softmax(scores);
  Expr used = weights;
  if (context->training && config.Float("dropout") > 0) {
    used = Dropout(weights, config.Float("dropout"), config.Int("seed")).first;
  }
  LayerOutput output = BatchMatMul(used, value);
  output.value = WithoutMasked(output.value, q->mask);
  output.mask = q->mask;
  if (!config.Bool("return_attention_scores")) return output;
  return LayerOutput(std::vector<LayerOutput>{output, weights});
}

LayerClass AttentionLike(std::string_view name, std::string_view doc, ScoreFn score,
                         std::vector<Argument> arguments) {
  for (Argument& more : std::vector<Argument>{
           Float("dropout", "Share of the weights that become 0 in training.")
               .Default(0.0)
               .Below(0, 1),
           Int("seed", "Combined with the seed of the job; none counts as 0.").Optional(),
           Bool("use_causal_mask", "True: a step attends to itself and those before it.")
               .Default(false),
           Bool("return_attention_scores", "True: its part 1 are the weights.").Default(false)}) {
    arguments.push_back(std::move(more));
  }
  return {.schema = LayerSchema(name, doc, std::move(arguments)),
          .min_inputs = 2,
          .max_inputs = 3,
          .mask = MaskRule::kOwn,
          .call = {"query", "value", "key"},
          .call_arguments = {"return_attention_scores", "use_causal_mask"},
          .several_outputs = true,
          .build = [score](LayerContext* context) { return BuildAttention(context, score); }};
}

}  // namespace

LayerClass AttentionLayer() {
  return AttentionLike("Attention", "Means of values, weighted by products of queries and keys.",
                       DotScores,
                       {Bool("use_scale", "True: a variable scales the products.").Default(false),
                        String("score_mode", "dot: products; concat: sums of tanh(query + key).")
                            .Default("dot")
                            .OneOf({"dot", "concat"})});
}

LayerClass AdditiveAttentionLayer() {
  return AttentionLike("AdditiveAttention",
                       "Means of values, weighted by sums of tanh(query + key).", AdditiveScores,
                       {Bool("use_scale", "False: no variable scales the sums.").Default(true)});
}

}  // namespace cohort
