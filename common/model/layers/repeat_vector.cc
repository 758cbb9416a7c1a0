// RepeatVector (keras/src/layers/reshaping/repeat_vector.py).
#include "common/graph/expr.h"
#include "common/model/layers/axes.h"
#include "common/model/layers/layer.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildRepeatVector(LayerContext* context) {
  const Expr x = context->inputs[0].value;
  COHORT_RETURN_IF_ERROR(CheckAxes(x.type(), 2, "[batch, features]"));
  const int64_t n = context->config.Int("n");
  const Expr row = Reshape(x, {-1, 1, x.type().dims[1].size});
  const std::vector<Expr> rows(static_cast<size_t>(n), row);
  return Concat(rows, 1);
}

}  // namespace

LayerClass RepeatVectorLayer() {
  return {.schema = LayerSchema("RepeatVector", "[batch, features] to [batch, n, features].",
                                {Int("n", "How often.").Between(1, 65536)}),
          .build = BuildRepeatVector};
}

}  // namespace cohort
