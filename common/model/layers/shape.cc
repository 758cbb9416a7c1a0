// Layers without weights and activations: Flatten, Reshape, Concatenate, GlobalAveragePooling1D
// (keras/src/layers/reshaping, merging, pooling).
#include <algorithm>

#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {
namespace {

int64_t ElementsOfOne(const ValueType& type) {
  int64_t elements = 1;
  for (size_t i = 1; i < type.dims.size(); ++i) elements *= type.dims[i].size;
  return elements;
}

}  // namespace

absl::StatusOr<LayerOutput> BuildFlatten(LayerContext* context) {
  const Expr x = context->inputs[0].value;
  if (!x.valid()) return LayerOutput{};
  return LayerOutput{Reshape(x, {-1, ElementsOfOne(x.type())}), {}};
}

absl::StatusOr<LayerOutput> BuildReshape(LayerContext* context) {
  const Expr x = context->inputs[0].value;
  if (!x.valid()) return LayerOutput{};
  const int64_t elements = ElementsOfOne(x.type());
  std::vector<int64_t> dims = {-1};
  int64_t known = 1;
  size_t unknown = 0;  // axis 0 is the batch
  for (int64_t size : context->spec->shape()) {
    if (size == -1 && unknown == 0) {
      unknown = dims.size();
    } else if (size < 1 || known > elements / size) {
      return InvalidArgument("target_shape {} does not have the {} elements of the input",
                             DimsToString({context->spec->shape().data(),
                                           static_cast<size_t>(context->spec->shape_size())}),
                             elements);
    } else {
      known *= size;
    }
    dims.push_back(size);
  }
  if (unknown != 0) dims[unknown] = elements / known;
  if (known * (unknown != 0 ? dims[unknown] : 1) != elements) {
    return InvalidArgument("target_shape {} does not have the {} elements of the input",
                           DimsToString({context->spec->shape().data(),
                                         static_cast<size_t>(context->spec->shape_size())}),
                           elements);
  }
  return LayerOutput{Reshape(x, std::move(dims)), {}};
}

absl::StatusOr<LayerOutput> BuildConcatenate(LayerContext* context) {
  bool all_integers = true;
  for (const LayerOutput& input : context->inputs) {
    if (!input.value.valid()) return LayerOutput{};
    all_integers = all_integers && input.value.dtype() == DType::kInt64;
  }
  std::vector<Expr> values;
  for (size_t i = 0; i < context->inputs.size(); ++i) {
    values.push_back(all_integers ? context->inputs[i].value : context->FloatInput(i));
  }
  const auto rank = static_cast<int64_t>(values[0].rank());
  int64_t axis = context->spec->axis();
  if (axis < 0) axis += rank;
  if (axis < 1 || axis >= rank) {
    return InvalidArgument("axis {} is not one of {} (axis 0 is the batch)", context->spec->axis(),
                           TypeToString(values[0].type()));
  }
  return LayerOutput{Concat(values, axis), {}};
}

absl::StatusOr<LayerOutput> BuildGlobalAveragePooling1D(LayerContext* context) {
  const Expr x = context->FloatInput(0);
  if (!x.valid()) return LayerOutput{};
  if (x.rank() != 3) {
    return InvalidArgument("the input must be [batch, steps, features], and is {}",
                           TypeToString(x.type()));
  }
  return LayerOutput{ReduceMean(x, {1}), {}};
}

}  // namespace cohort
