// Conv1D, Conv2D: activation(x * kernel + bias) (keras/src/layers/convolutional/base_conv.py).
#include "common/model/layers/spatial.h"

namespace cohort {
namespace {

// A kernel of one element without strides is a product of matrices.
bool IsPointwise(const ConvWindow& w) {
  return w.taps == std::array<int64_t, 2>{1, 1} &&
         w.options.strides == std::array<int64_t, 2>{1, 1} && w.options.groups == 1;
}

absl::StatusOr<LayerOutput> BuildConv(LayerContext* context, size_t rank) {
  const Config& config = context->config;
  COHORT_ASSIGN_OR_RETURN(Expr x, SpatialInput(*context, rank));
  COHORT_ASSIGN_OR_RETURN(ConvWindow window, MakeConvWindow(config, rank));
  const int64_t channels = x.type().dims.back().size, filters = config.Int("filters");
  const int64_t groups = window.options.groups = config.Int("groups");
  if (channels % groups != 0 || filters % groups != 0) {
    return InvalidArgument("{} channels and {} filters are not divisible by {} groups", channels,
                           filters, groups);
  }
  std::vector<int64_t> dims(window.taps.begin() + (2 - rank), window.taps.end());
  dims.insert(dims.end(), {channels / groups, filters});
  COHORT_ASSIGN_OR_RETURN(const Expr kernel,
                          context->Weight("kernel", std::move(dims), "kernel_initializer"));
  if (IsPointwise(window)) {
    std::vector<int64_t> out = ReshapeDims(x.type().dims);
    out.back() = filters;
    const Expr y = MatMul(Reshape(x, {-1, channels}), Reshape(kernel, {channels, filters}));
    return FinishConvolution(context, Reshape(y, std::move(out)));
  }
  x = AsImages(x);
  SetPads(&window, x.type());
  const Expr y = Conv2D(x, AsImageKernel(kernel, rank), window.options);
  return FinishConvolution(context, FromImages(y, rank));
}

LayerClass ConvLayer(std::string_view name, std::string_view doc, size_t rank,
                     std::vector<std::string_view> paddings) {
  ClassSchema schema = ConvSchema(
      name, doc, rank,
      {Int("filters", "Channels of the output.").AtLeast(1),
       Int("groups", "Groups of channels; each sees its own inputs only.").Default(1).AtLeast(1),
       Planned("lora_rank"), Planned("lora_alpha")},
      {"kernel"}, std::move(paddings));
  return {.schema = std::move(schema),
          .build = [rank](LayerContext* context) { return BuildConv(context, rank); }};
}

}  // namespace

LayerClass Conv1DLayer() {
  return ConvLayer("Conv1D", "A convolution over the steps of [batch, steps, features].", 1,
                   {"valid", "same", "causal"});
}

LayerClass Conv2DLayer() {
  return ConvLayer("Conv2D", "A convolution over images [batch, rows, columns, channels].", 2,
                   {"valid", "same"});
}

}  // namespace cohort
