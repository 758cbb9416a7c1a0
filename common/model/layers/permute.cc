// Permute (keras/src/layers/reshaping/permute.py).
#include <algorithm>

#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildPermute(LayerContext* context) {
  const Expr x = context->inputs[0].value;
  std::vector<int64_t> perm = context->config.Ints("dims"), sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] == static_cast<int64_t>(i) + 1) continue;
    return InvalidArgument("dims must be an order of the axes from 1, and are {}",
                           DimsToString(perm));
  }
  if (perm.size() + 1 != x.rank()) {
    return InvalidArgument("dims {} are not as many as the axes of {} without the batch",
                           DimsToString(perm), TypeToString(x.type()));
  }
  perm.insert(perm.begin(), 0);
  return Transpose(x, std::move(perm));
}

}  // namespace

LayerClass PermuteLayer() {
  return {.schema = LayerSchema(
              "Permute", "Another order of the axes.",
              {Ints("dims", "The axes of the input, from 1, in the order of the output.")}),
          .build = BuildPermute};
}

}  // namespace cohort
