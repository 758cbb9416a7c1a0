// MaxPooling1D (keras/src/layers/pooling/max_pooling1d.py).
#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildMaxPooling1D(LayerContext* context) {
  const Config& config = context->config;
  const Expr x = context->FloatInput(0);
  if (!x.valid()) return LayerOutput{};
  if (x.rank() != 3) {
    return InvalidArgument("the input must be [batch, steps, features], and is {}",
                           TypeToString(x.type()));
  }
  // Keras writes each as a list of one.
  const std::vector<int64_t> size = config.Ints("pool_size");
  const std::vector<int64_t> strides = config.IsNone("strides") ? size : config.Ints("strides");
  if (size.size() != 1 || strides.size() != 1) {
    return InvalidArgument("pool_size and strides must be one number each");
  }
  return LayerOutput{MaxPool1D(x, size[0], strides[0], config.String("padding")), {}};
}

}  // namespace

LayerClass MaxPooling1DLayer() {
  return {.schema = LayerSchema(
              "MaxPooling1D", "The maximum of each window of steps of [batch, steps, features].",
              {Ints("pool_size", "Steps of a window.").Default(std::vector<int64_t>{2}).AtLeast(1),
               Ints("strides", "Steps between two windows; none: pool_size.").Optional().AtLeast(1),
               String("padding", "same: windows may begin before and end behind the steps.")
                   .Default("valid")
                   .OneOf({"valid", "same"}),
               Planned(String("data_format", "").Default("channels_last"))}),
          .build = BuildMaxPooling1D};
}

}  // namespace cohort
