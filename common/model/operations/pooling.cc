// Windows over images and sequences (keras/src/ops/nn.py).
#include "common/model/layers/axes.h"
#include "common/model/operations/operation_list.h"

namespace cohort {
namespace {

using PoolFn = Expr (*)(Expr, std::vector<int64_t>, std::vector<int64_t>, std::string);

LayerClass Pooling(std::string_view name, std::string_view doc, PoolFn pool) {
  return Operation(
      name, doc, {"inputs"},
      {Ints("pool_size", "Size of a window.").AtLeast(1),
       Ints("strides", "Distance between two windows; none: pool_size.").Optional().AtLeast(1),
       String("padding", "same: windows may begin before and end after the input.")
           .Default("valid")
           .OneOf({"valid", "same"}),
       DataFormatArgument()},
      [pool](LayerContext* context) -> MadeOutput {
        const Config& config = context->config;
        const Expr x = FloatsOf(*context, "inputs");
        if (!x.valid()) return LayerOutput{};
        const size_t axes = x.rank() - 2;
        std::vector<int64_t> window = config.Ints("pool_size");
        std::vector<int64_t> strides = config.IsNone("strides") ? window : config.Ints("strides");
        if (window.size() == 1) window.resize(axes, window[0]);
        if (strides.size() == 1) strides.resize(axes, strides[0]);
        if (x.rank() < 3 || x.rank() > 4 || window.size() != axes || strides.size() != axes) {
          return InvalidArgument("its input is [batch, steps, features] or an image, not {}",
                                 TypeToString(x.type()));
        }
        return pool(x, std::move(window), std::move(strides), config.String("padding"));
      });
}

}  // namespace

std::vector<LayerClass> PoolingOperations() {
  return {Pooling("max_pool", "The maximum of each window.", MaxPool),
          Pooling("average_pool", "The mean of each window.", AvgPool)};
}

}  // namespace cohort
