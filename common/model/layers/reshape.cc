// Reshape (keras/src/layers/reshaping/reshape.py).
#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildReshape(LayerContext* context) {
  const Expr x = context->inputs[0].value;
  const std::vector<int64_t> target = context->config.Ints("target_shape");
  const int64_t elements = ElementsPerRecord(x.type());
  const auto unsuitable = [&] {
    return InvalidArgument("target_shape {} does not have the {} elements of the input",
                           DimsToString(target), elements);
  };
  std::vector<int64_t> dims = {-1};
  int64_t known = 1;
  size_t unknown = 0;  // axis 0 is the batch
  for (int64_t size : target) {
    if (size == -1 && unknown == 0) {
      unknown = dims.size();
    } else if (size < 1 || known > elements / size) {
      return unsuitable();
    } else {
      known *= size;
    }
    dims.push_back(size);
  }
  if (unknown != 0) dims[unknown] = elements / known;
  if (known * (unknown != 0 ? dims[unknown] : 1) != elements) return unsuitable();
  return Reshape(x, std::move(dims));
}

}  // namespace

LayerClass ReshapeLayer() {
  return {
      .schema = LayerSchema(
          "Reshape", "Another shape of the same elements.",
          {Ints("target_shape", "The shape without the batch; -1 in one place: what remains.")}),
      .build = BuildReshape};
}

}  // namespace cohort
