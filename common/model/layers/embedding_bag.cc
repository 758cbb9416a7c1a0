// EmbeddingBag: one vector of several ids, as torch.nn.EmbeddingBag and the combiners of
// tf.nn.embedding_lookup_sparse compute it.
#include <algorithm>
#include <iterator>

#include "common/graph/expr.h"
#include "common/model/layers/table_rows.h"

namespace cohort {
namespace {

// 1 / x, and 0 for 0.
Expr InverseOrZero(Expr x) {
  const Expr zero = x.builder()->Scalar(0, x.dtype());
  const Expr is_zero = Equal(x, zero);
  return Select(is_zero, zero, 1.0 / Select(is_zero, zero + 1.0, x));
}

absl::StatusOr<LayerOutput> BuildEmbeddingBag(LayerContext* context) {
  COHORT_ASSIGN_OR_RETURN(const Expr rows, TableRows(context));
  return BagOfRows(context, rows);
}

absl::StatusOr<LayerOutput> BuildDynamicEmbeddingBag(LayerContext* context) {
  COHORT_ASSIGN_OR_RETURN(const Expr rows, DynamicTableRows(context));
  return BagOfRows(context, rows);
}

}  // namespace

absl::StatusOr<LayerOutput> BagOfRows(LayerContext* context, Expr rows) {
  const ValueType ids = context->inputs[0].value.type();
  if (ids.dims.size() != 2) {
    return InvalidArgument("its ids must be lists [batch, length], and are {}", TypeToString(ids));
  }
  Expr weights;
  if (context->inputs.size() > 1) {
    weights = context->FloatInput(1);
    if (weights.type().dims != ids.dims) {
      return InvalidArgument("its ids are {} and their weights {}: they must have one shape",
                             TypeToString(ids), TypeToString(weights.type()));
    }
  }
  if (!rows.valid()) return LayerOutput();
  const Expr places = context->places;
  const Expr sum = Bag(rows, places, weights);
  const std::string combiner = context->config.String("combiner");
  if (combiner == "sum") return LayerOutput(sum);
  const DType dtype = rows.dtype();
  const Expr counts = GreaterEqual(places, context->builder->Scalar(0, DType::kInt64));
  const Expr factors = weights.valid() ? Select(counts, weights, context->builder->Scalar(0, dtype))
                                       : Cast(counts, dtype);
  const Expr divisor = combiner == "mean" ? ReduceSum(factors, {1}, true)
                                          : Sqrt(ReduceSum(Square(factors), {1}, true));
  return LayerOutput(sum * InverseOrZero(divisor));
}

std::vector<Argument> BagArguments() {
  return {
      String("combiner",
             "What becomes of the rows, each times its weight w: `sum`; `mean`, the sum divided by "
             "that of w; `sqrtn`, divided by the root of the sum of w^2.")
          .Default("mean")
          .OneOf({"sum", "mean", "sqrtn"}),
      Int("padding", "The id behind the end of a list, which does not count; none: all count.")
          .Optional()};
}

LayerClass EmbeddingBagLayer() {
  std::vector<Argument> arguments = TableArguments();
  std::ranges::move(BagArguments(), std::back_inserter(arguments));
  return {.schema = LayerSchema(
              "EmbeddingBag",
              "One vector of each list of ids, [batch, output_dim]: their rows of a table, "
              "combined. The inputs are the lists [batch, length], or a ragged Input, and weights "
              "of the same shape, if there are any. An empty list gives zeros.",
              std::move(arguments)),
          .max_inputs = 2,
          .takes_keys = true,
          .build = BuildEmbeddingBag};
}

LayerClass DynamicEmbeddingBagLayer() {
  std::vector<Argument> arguments = DynamicTableArguments();
  std::ranges::move(BagArguments(), std::back_inserter(arguments));
  return {
      .schema = LayerSchema("DynamicEmbeddingBag",
                            "As EmbeddingBag, with the table of DynamicEmbedding: ids of 64 bits, "
                            "which nobody has listed.",
                            std::move(arguments)),
      .max_inputs = 2,
      .takes_keys = true,
      .unbounded = true,
      .build = BuildDynamicEmbeddingBag};
}

}  // namespace cohort
