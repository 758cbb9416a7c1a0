// GlobalAveragePooling1D (keras/src/layers/pooling/global_average_pooling1d.py).
#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildGlobalAveragePooling1D(LayerContext* context) {
  const Expr x = context->FloatInput(0);
  if (!x.valid()) return LayerOutput{};
  if (x.rank() != 3) {
    return InvalidArgument("the input must be [batch, steps, features], and is {}",
                           TypeToString(x.type()));
  }
  return LayerOutput{ReduceMean(x, {1}), {}};
}

}  // namespace

LayerClass GlobalAveragePooling1DLayer() {
  return {.schema = LayerSchema("GlobalAveragePooling1D",
                                "The mean over the steps of [batch, steps, features].",
                                {Planned(String("data_format", "").Default("channels_last")),
                                 Planned(Bool("keepdims", "").Default(false))}),
          .build = BuildGlobalAveragePooling1D};
}

}  // namespace cohort
