// DepthwiseConv1D, DepthwiseConv2D (keras/src/layers/convolutional/base_depthwise_conv.py) and
// SeparableConv1D, SeparableConv2D (base_separable_conv.py).
#include "common/model/layers/spatial.h"

namespace cohort {
namespace {

// Each channel of x has `depth_multiplier` kernels of its own: as many groups as channels. Keras'
// kernel [taps..., channels, multiplier] has the memory of [taps..., 1, channels * multiplier].
absl::StatusOr<Expr> Depthwise(LayerContext* context, Expr x, size_t rank, std::string_view kernel,
                               std::string_view initializer) {
  COHORT_ASSIGN_OR_RETURN(ConvWindow window, MakeConvWindow(context->config, rank));
  const int64_t channels = x.type().dims.back().size;
  const int64_t multiplier = context->config.Int("depth_multiplier");
  std::vector<int64_t> dims(window.taps.begin() + (2 - rank), window.taps.end());
  dims.insert(dims.end(), {channels, multiplier});
  COHORT_ASSIGN_OR_RETURN(const Expr weight, context->Weight(kernel, std::move(dims), initializer));
  x = AsImages(x);
  SetPads(&window, x.type());
  window.options.groups = channels;
  const Expr taps = Reshape(weight, {window.taps[0], window.taps[1], 1, channels * multiplier});
  return FromImages(Conv2D(x, taps, window.options), rank);
}

absl::StatusOr<LayerOutput> BuildDepthwise(LayerContext* context, size_t rank) {
  COHORT_ASSIGN_OR_RETURN(const Expr x, SpatialInput(*context, rank));
  COHORT_ASSIGN_OR_RETURN(const Expr y,
                          Depthwise(context, x, rank, "kernel", "depthwise_initializer"));
  return FinishConvolution(context, y);
}

absl::StatusOr<LayerOutput> BuildSeparable(LayerContext* context, size_t rank) {
  COHORT_ASSIGN_OR_RETURN(const Expr x, SpatialInput(*context, rank));
  COHORT_ASSIGN_OR_RETURN(const Expr y,
                          Depthwise(context, x, rank, "depthwise_kernel", "depthwise_initializer"));
  if (!y.valid()) return LayerOutput{};
  const int64_t channels = y.type().dims.back().size, filters = context->config.Int("filters");
  std::vector<int64_t> dims(rank, 1);
  dims.insert(dims.end(), {channels, filters});
  COHORT_ASSIGN_OR_RETURN(const Expr kernel, context->Weight("pointwise_kernel", std::move(dims),
                                                             "pointwise_initializer"));
  std::vector<int64_t> out = ReshapeDims(y.type().dims);
  out.back() = filters;
  const Expr mixed = MatMul(Reshape(y, {-1, channels}), Reshape(kernel, {channels, filters}));
  return FinishConvolution(context, Reshape(mixed, std::move(out)));
}

Argument DepthMultiplier() {
  return Int("depth_multiplier", "Outputs for each channel of the input.").Default(1).AtLeast(1);
}

LayerClass DepthwiseLayer(std::string_view name, std::string_view doc, size_t rank) {
  return {.schema = ConvSchema(name, doc, rank, {DepthMultiplier()}, {"depthwise"}),
          .build = [rank](LayerContext* context) { return BuildDepthwise(context, rank); }};
}

LayerClass SeparableLayer(std::string_view name, std::string_view doc, size_t rank) {
  return {.schema =
              ConvSchema(name, doc, rank,
                         {Int("filters", "Channels of the output.").AtLeast(1), DepthMultiplier()},
                         {"depthwise", "pointwise"}),
          .build = [rank](LayerContext* context) { return BuildSeparable(context, rank); }};
}

}  // namespace

LayerClass DepthwiseConv1DLayer() {
  return DepthwiseLayer("DepthwiseConv1D", "A convolution of each feature alone, over the steps.",
                        1);
}
LayerClass DepthwiseConv2DLayer() {
  return DepthwiseLayer("DepthwiseConv2D", "A convolution of each channel alone.", 2);
}
LayerClass SeparableConv1DLayer() {
  return SeparableLayer("SeparableConv1D",
                        "DepthwiseConv1D, then a product with a matrix at each step.", 1);
}
LayerClass SeparableConv2DLayer() {
  return SeparableLayer("SeparableConv2D",
                        "DepthwiseConv2D, then a product with a matrix at each pixel.", 2);
}

}  // namespace cohort
