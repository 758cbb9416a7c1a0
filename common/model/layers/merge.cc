// Layers that combine their inputs element by element: Add, Average, Maximum, Minimum, Multiply,
// Subtract (keras/src/layers/merging).
#include <algorithm>

#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {
namespace {

// Inputs of lower rank get axes of size 1 after the batch, as Keras does; then they broadcast.
absl::StatusOr<LayerOutput> Merge(LayerContext* context, Expr (*combine)(Expr, Expr)) {
  size_t rank = 0;
  std::vector<Expr> values;
  for (size_t i = 0; i < context->inputs.size(); ++i) {
    values.push_back(context->FloatInput(i));
    rank = std::max(rank, values.back().rank());
  }
  for (Expr& value : values) {
    if (value.rank() == rank) continue;
    std::vector<int64_t> dims = ReshapeDims(value.type().dims);
    dims.insert(dims.begin() + 1, rank - dims.size(), 1);
    value = Reshape(value, std::move(dims));
  }
  Expr merged = values[0];
  for (size_t i = 1; i < values.size(); ++i) merged = combine(merged, values[i]);
  return merged;
}

LayerClass MergeLayer(std::string_view name, std::string_view doc, Expr (*combine)(Expr, Expr)) {
  return {.schema = LayerSchema(name, doc, {}),
          .max_inputs = kAnyNumberOfInputs,
          .mask = MaskRule::kMerge,
          .build = [combine](LayerContext* context) { return Merge(context, combine); }};
}

absl::StatusOr<LayerOutput> BuildAverage(LayerContext* context) {
  COHORT_ASSIGN_OR_RETURN(const LayerOutput sum,
                          Merge(context, [](Expr a, Expr b) { return a + b; }));
  return sum.value / static_cast<double>(context->inputs.size());
}

}  // namespace

LayerClass AddLayer() {
  return MergeLayer("Add", "The sum of its inputs, which broadcast.",
                    [](Expr a, Expr b) { return a + b; });
}

LayerClass AverageLayer() {
  return {.schema = LayerSchema("Average", "The mean of its inputs, which broadcast.", {}),
          .max_inputs = kAnyNumberOfInputs,
          .mask = MaskRule::kMerge,
          .build = BuildAverage};
}

LayerClass MaximumLayer() {
  return MergeLayer("Maximum", "The largest of its inputs, which broadcast.", Maximum);
}

LayerClass MinimumLayer() {
  return MergeLayer("Minimum", "The least of its inputs, which broadcast.", Minimum);
}

LayerClass SubtractLayer() {
  LayerClass layer = MergeLayer("Subtract", "The first of two inputs less the second.",
                                [](Expr a, Expr b) { return a - b; });
  layer.min_inputs = layer.max_inputs = 2;
  return layer;
}

LayerClass MultiplyLayer() {
  return MergeLayer("Multiply", "The product of its inputs, which broadcast.",
                    [](Expr a, Expr b) { return a * b; });
}

}  // namespace cohort
