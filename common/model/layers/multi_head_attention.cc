// MultiHeadAttention and GroupQueryAttention (keras/src/layers/attention/multi_head_attention.py,
// grouped_query_attention.py).
#include <cmath>

#include "common/graph/expr.h"
#include "common/model/einsum.h"
#include "common/model/layers/attention_masks.h"
#include "common/model/layers/masks.h"
#include "common/model/regularizers.h"
#include "common/optimizers/constraints.h"

namespace cohort {
namespace {

constexpr double kMaskedLogit = 3.38953e38 * -0.7;  // _get_large_negative
constexpr double kMaskedScoreOfSoftmax = -1e9;      // _large_negative_number

// Queries have `heads` heads; each of `key_heads` heads of keys serves heads / key_heads of them.
struct Heads {
  int64_t heads = 0, key_heads = 0, key_size = 0, value_size = 0;
  int64_t shared() const { return heads / key_heads; }
};

int64_t LastSize(Expr x) { return x.type().dims.back().size; }

// x [batch, steps, features] times a kernel [features, heads, size], with its bias.
absl::StatusOr<Expr> Project(LayerContext* context, const std::string& part, Expr x, int64_t heads,
                             int64_t size) {
  const int64_t features = LastSize(x);
  COHORT_ASSIGN_OR_RETURN(const Expr kernel,
                          context->Weight(part + "/kernel", {features, heads, size},
                                          "kernel_initializer", {features, heads * size}));
  const Expr operands[] = {x, kernel};
  COHORT_ASSIGN_OR_RETURN(const Expr y, Einsum("btd,dhk->bthk", operands));
  if (!context->config.Bool("use_bias")) return y;
  COHORT_ASSIGN_OR_RETURN(const Expr bias,
                          context->Weight(part + "/bias", {heads, size}, "bias_initializer"));
  return y + bias;
}

// y [batch, steps, heads, size] times a kernel [heads, size, dims...].
absl::StatusOr<Expr> ProjectBack(LayerContext* context, Expr y, const Heads& heads,
                                 const std::vector<int64_t>& dims) {
  std::vector<int64_t> kernel_dims = {heads.heads, heads.value_size};
  int64_t outputs = 1;
  std::string labels;
  for (size_t i = 0; i < dims.size(); ++i) {
    kernel_dims.push_back(dims[i]);
    outputs *= dims[i];
    labels.push_back(static_cast<char>('p' + i));
  }
  if (labels.size() > 6) return InvalidArgument("output_shape has more than 6 axes");
  COHORT_ASSIGN_OR_RETURN(
      const Expr kernel,
      context->Weight("attention_output/kernel", kernel_dims, "kernel_initializer",
                      {heads.heads * heads.value_size, outputs}));
  const Expr operands[] = {y, kernel};
  COHORT_ASSIGN_OR_RETURN(const Expr z,
                          Einsum(fmt::format("bthk,hk{}->bt{}", labels, labels), operands));
  if (!context->config.Bool("use_bias")) return z;
  COHORT_ASSIGN_OR_RETURN(const Expr bias,
                          context->Weight("attention_output/bias", dims, "bias_initializer"));
  return z + bias;
}

// [batch, steps] as [batch, steps, 1], or as [batch, 1, steps].
Expr AlongSteps(Expr mask, bool of_keys) {
  if (!mask.valid()) return mask;
  std::vector<int64_t> dims = ReshapeDims(mask.type().dims);
  dims.insert(of_keys ? dims.begin() + 1 : dims.end(), 1);
  return Reshape(mask, std::move(dims));
}

// Which keys a query attends to: [batch or 1, queries, keys], [queries, keys] or with heads
// [batch, heads, queries, keys]; no value: to all.
absl::StatusOr<Expr> AttentionMask(const LayerContext& context, const ValueType& query,
                                   const ValueType& key) {
  const Config& config = context.config;
  const int64_t queries = query.dims[1].size, keys = key.dims[1].size;
  Expr mask;
  for (const char* const name : {"query", "value", "key"}) {
    const LayerOutput* const input = context.Named(name);
    if (input == nullptr || !input->mask.valid()) continue;
    COHORT_RETURN_IF_ERROR(CheckMask(input->mask, input->value.type()));
    mask = BothMasks(mask, AlongSteps(input->mask, std::string_view(name) != "query"));
  }
  if (config.Bool("use_causal_mask")) {
    mask = BothMasks(mask, CausalMask(context.builder, queries, keys));
  }
  if (config.Has("sliding_window")) {
    mask =
        BothMasks(mask, WindowMask(context.builder, queries, keys, config.Int("sliding_window")));
  }
  const LayerOutput* const given = context.Named("attention_mask");
  if (given == nullptr) return mask;
  const Expr own = AsMask(given->value);
  if (own.rank() == 4 && mask.valid() && mask.rank() == 3) {
    std::vector<int64_t> dims = ReshapeDims(mask.type().dims);
    dims.insert(dims.begin() + 1, 1);
    mask = Reshape(mask, std::move(dims));
  }
  return BothMasks(own, mask);
}

// As [batch, key heads, shared heads, queries, keys], or axes of 1.
absl::StatusOr<Expr> OverHeads(Expr mask, const Heads& heads) {
  if (!mask.valid() || mask.rank() <= 2) return mask;
  std::vector<int64_t> dims = ReshapeDims(mask.type().dims);
  if (mask.rank() == 3) {
    dims.insert(dims.begin() + 1, 2, 1);
  } else if (mask.rank() == 4) {
    const bool each = dims[1] != 1;
    dims[1] = each ? heads.key_heads : 1;
    dims.insert(dims.begin() + 2, each ? heads.shared() : 1);
  } else {
    return InvalidArgument("attention_mask {} is not [batch, queries, keys]",
                           TypeToString(mask.type()));
  }
  return Reshape(mask, std::move(dims));
}

struct Attended {
  Expr output;  // [batch, queries, heads, size]
  Expr scores;  // [batch, heads, queries, keys]
};

absl::StatusOr<Attended> Attend(LayerContext* context, Expr query, Expr key, Expr value, Expr mask,
                                const Heads& heads) {
  const Config& config = context->config;
  std::vector<int64_t> dims = ReshapeDims(query.type().dims), result = dims;
  dims[2] = heads.key_heads;
  dims.insert(dims.begin() + 3, heads.shared());
  query = Reshape(query * (1 / std::sqrt(static_cast<double>(heads.key_size))), std::move(dims));
  const Expr of_query[] = {query, key};
  COHORT_ASSIGN_OR_RETURN(Expr logits, Einsum("bqhsd,bkhd->bhsqk", of_query));
  COHORT_ASSIGN_OR_RETURN(mask, OverHeads(mask, heads));
  // Keras has two paths, which mask differently.
  const bool plain = config.Float("dropout") == 0 && !config.Bool("return_attention_scores");
  if (!logits.valid()) return Attended{};
  const auto number = [&](double x) { return context->builder->Scalar(x, logits.dtype()); };
  if (mask.valid()) {
    logits = Select(mask, logits, number(plain ? kMaskedLogit : kMaskedScoreOfSoftmax));
  }
  Expr weights = Softmax(logits);
  if (mask.valid() && !plain) weights = Select(mask, weights, number(0));
  Attended attended;
  if (!plain && weights.valid()) {
    std::vector<int64_t> of_heads = ReshapeDims(weights.type().dims);
    of_heads.erase(of_heads.begin() + 2);
    of_heads[1] = heads.heads;
    attended.scores = Reshape(weights, std::move(of_heads));
  }
  if (context->training && config.Float("dropout") > 0) {
    weights = Dropout(weights, config.Float("dropout"), config.Int("seed")).first;
  }
  const Expr of_value[] = {weights, value};
  COHORT_ASSIGN_OR_RETURN(const Expr output, Einsum("bhsqk,bkhd->bqhsd", of_value));
  result[3] = heads.value_size;
  attended.output = Reshape(output, std::move(result));
  return attended;
}

absl::StatusOr<LayerOutput> BuildHeads(LayerContext* context, const Heads& heads,
                                       std::vector<int64_t> output_shape) {
  const Config& config = context->config;
  const LayerOutput *q = context->Named("query"), *v = context->Named("value"),
                    *k = context->Named("key");
  if (q == nullptr || v == nullptr) {
    return InvalidArgument("its inputs are query and value, then key and attention_mask");
  }
  const Expr x = Cast(q->value, context->floatx), of_value = Cast(v->value, context->floatx);
  const Expr of_key = k == nullptr ? of_value : Cast(k->value, context->floatx);
  for (const Expr& input : {x, of_value, of_key}) {
    if (input.rank() == 3) continue;
    return InvalidArgument(
        "its inputs are [batch, steps, features], not {}; attention over several axes is not "
        "supported: use Reshape",
        TypeToString(input.type()));
  }
  COHORT_ASSIGN_OR_RETURN(const Expr mask, AttentionMask(*context, x.type(), of_key.type()));
  // In the order in which Keras makes their variables.
  COHORT_ASSIGN_OR_RETURN(const Expr query,
                          Project(context, "query", x, heads.heads, heads.key_size));
  COHORT_ASSIGN_OR_RETURN(const Expr key,
                          Project(context, "key", of_key, heads.key_heads, heads.key_size));
  Expr gate;
  if (config.Bool("use_gate")) {
    COHORT_ASSIGN_OR_RETURN(gate, Project(context, "gate", x, heads.heads, heads.value_size));
    gate = Sigmoid(gate);
  }
  COHORT_ASSIGN_OR_RETURN(const Expr value,
                          Project(context, "value", of_value, heads.key_heads, heads.value_size));
  COHORT_ASSIGN_OR_RETURN(Attended attended, Attend(context, query, key, value, mask, heads));
  if (gate.valid()) attended.output = attended.output * gate;
  if (output_shape.empty()) output_shape = {LastSize(x)};
  COHORT_ASSIGN_OR_RETURN(LayerOutput output,
                          ProjectBack(context, attended.output, heads, output_shape));
  output.mask = q->mask;
  if (!config.Bool("return_attention_scores")) return output;
  return LayerOutput(std::vector<LayerOutput>{output, attended.scores});
}

std::vector<Argument> HeadArguments(std::vector<Argument> arguments) {
  for (Argument& more : std::vector<Argument>{
           Float("dropout", "Share of the weights that become 0 in training.")
               .Default(0.0)
               .Below(0, 1),
           Bool("use_bias", "False: no biases.").Default(true),
           Int("sliding_window", "Steps that are this far apart do not see each other.")
               .Optional()
               .AtLeast(1),
           Bool("use_gate", "True: a sigmoid of the query gates the heads.").Default(false),
           InitializerArgument("kernel_initializer", "GlorotUniform", "First kernels."),
           InitializerArgument("bias_initializer", "Zeros", "First biases."),
           RegularizerArgument("kernel_regularizer"), RegularizerArgument("bias_regularizer"),
           ConstraintArgument("kernel_constraint"), ConstraintArgument("bias_constraint"),
           Int("seed", "Combined with the seed of the job; none counts as 0.").Optional(),
           Planned("flash_attention"),
           Bool("use_causal_mask", "True: a step attends to itself and those before it.")
               .Default(false),
           Bool("return_attention_scores", "True: its part 1 are the weights.").Default(false),
           InputNamesArgument()}) {
    arguments.push_back(std::move(more));
  }
  return arguments;
}

LayerClass HeadLayer(std::string_view name, std::string_view doc, std::vector<Argument> arguments) {
  return {.schema = LayerSchema(name, doc, HeadArguments(std::move(arguments))),
          .min_inputs = 2,
          .max_inputs = 4,
          .mask = MaskRule::kOwn,
          .call = {"query", "value", "key", "attention_mask"},
          .call_arguments = {"input_names", "return_attention_scores", "use_causal_mask"},
          .several_outputs = true};
}

}  // namespace

LayerClass MultiHeadAttentionLayer() {
  LayerClass layer = HeadLayer(
      "MultiHeadAttention",
      "Attention of several heads: of the inputs query and value, and of key and attention_mask.",
      {Int("num_heads", "The number of heads.").AtLeast(1),
       Int("key_dim", "The size of a head for queries and keys.").AtLeast(1),
       Int("value_dim", "The size of a head for values; none: key_dim.").Optional().AtLeast(1),
       Ints("output_shape", "The shape of a step of the result; none: that of the query.")
           .Optional()
           .AtLeast(1),
       Ints("attention_axes", "Only the steps, axis 1.").Optional()});
  layer.removes_masks = true;
  layer.build = [](LayerContext* context) -> absl::StatusOr<LayerOutput> {
    const Config& config = context->config;
    if (config.Has("attention_axes") && config.Ints("attention_axes") != std::vector<int64_t>{1}) {
      return InvalidArgument("attention_axes {} is not supported: attention is over axis 1 alone",
                             DimsToString(config.Ints("attention_axes")));
    }
    Heads heads{config.Int("num_heads"), config.Int("num_heads"), config.Int("key_dim"),
                config.Int("key_dim")};
    if (config.Has("value_dim")) heads.value_size = config.Int("value_dim");
    return BuildHeads(
        context, heads,
        config.Has("output_shape") ? config.Ints("output_shape") : std::vector<int64_t>{});
  };
  return layer;
}

LayerClass GroupQueryAttentionLayer() {
  LayerClass layer =
      HeadLayer("GroupQueryAttention",
                "MultiHeadAttention in which several heads of queries share one of keys.",
                {Int("head_dim", "The size of a head.").AtLeast(1),
                 Int("num_query_heads", "The number of heads of queries.").AtLeast(1),
                 Int("num_key_value_heads", "The number of heads of keys and values.").AtLeast(1)});
  layer.schema.aliases = {"GroupedQueryAttention"};
  layer.build = [](LayerContext* context) -> absl::StatusOr<LayerOutput> {
    const Config& config = context->config;
    const Heads heads{config.Int("num_query_heads"), config.Int("num_key_value_heads"),
                      config.Int("head_dim"), config.Int("head_dim")};
    if (heads.heads % heads.key_heads != 0) {
      return InvalidArgument("num_query_heads {} is no multiple of num_key_value_heads {}",
                             heads.heads, heads.key_heads);
    }
    return BuildHeads(context, heads, {});
  };
  return layer;
}

}  // namespace cohort
