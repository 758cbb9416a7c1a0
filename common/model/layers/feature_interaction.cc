// FeatureInteraction: the second-order terms of DLRM (Naumov et al., 2019, arXiv:1906.00091), in
// the order of its reference, which is also that of keras_rs' DotInteraction: the rows of the lower
// triangle, one after another.
#include "common/graph/expr.h"
#include "common/model/layers/axes.h"
#include "common/model/layers/fields.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildFeatureInteraction(LayerContext* context) {
  COHORT_ASSIGN_OR_RETURN(const Expr vectors, FieldVectors(*context));
  const int64_t n = vectors.type().dims[1].size;
  const int64_t diagonal = context->config.Bool("self_interaction") ? 1 : 0;
  std::vector<int64_t> places;
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t column = 0; column < row + diagonal; ++column) places.push_back(row * n + column);
  }
  if (places.empty())
    return InvalidArgument("it has one vector: it needs two, or self_interaction");
  const Expr products = BatchMatMul(vectors, vectors, false, true);
  return GatherAt(Reshape(products, {-1, n * n}), 1, places);
}

}  // namespace

LayerClass FeatureInteractionLayer() {
  return {
      .schema = LayerSchema(
          "FeatureInteraction",
          "The dot products of each two of n vectors, [batch, n (n - 1) / 2], in the order (1, 0), "
          "(2, 0), (2, 1), ... An input has one vector, [batch, d], or several, "
          "[batch, fields, d].",
          {Bool("self_interaction",
                "True: also of each vector with itself: [batch, n (n + 1) / 2].")
               .Default(false)}),
      .max_inputs = kAnyNumberOfInputs,
      .build = BuildFeatureInteraction};
}

}  // namespace cohort
