// Conv1DTranspose, Conv2DTranspose: the gradient of a convolution with respect to its input, as a
// layer (keras/src/layers/convolutional/base_conv_transpose.py).
#include "common/model/layers/spatial.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildTranspose(LayerContext* context, size_t rank) {
  const Config& config = context->config;
  COHORT_ASSIGN_OR_RETURN(Expr x, SpatialInput(*context, rank));
  COHORT_ASSIGN_OR_RETURN(ConvWindow window, MakeConvWindow(config, rank));
  std::vector<int64_t> extra(rank, -1);
  if (!config.IsNone("output_padding")) {
    COHORT_ASSIGN_OR_RETURN(extra, SpatialSizes(config, "output_padding", rank));
  }
  const int64_t channels = x.type().dims.back().size, filters = config.Int("filters");
  std::vector<int64_t> dims(window.taps.begin() + (2 - rank), window.taps.end());
  dims.insert(dims.end(), {filters, channels});
  COHORT_ASSIGN_OR_RETURN(const Expr kernel,
                          context->Weight("kernel", std::move(dims), "kernel_initializer"));
  x = AsImages(x);
  const ValueType images = x.type();
  std::array<int64_t, 2> size = {1, 1};
  for (size_t i = 2 - rank; i < 2; ++i) {
    COHORT_ASSIGN_OR_RETURN(
        const TransposedAxis axis,
        MakeTransposedAxis(images.dims[1 + i].size, window.taps[i], window.options.strides[i],
                           window.options.dilations[i], window.padding == "same",
                           extra[i - (2 - rank)]));
    size[i] = axis.size;
    window.options.pads[2 * i] = axis.before;
    window.options.pads[2 * i + 1] = axis.after;
  }
  const Expr y = Conv2DInputGrad(x, AsImageKernel(kernel, rank), size, window.options);
  return FinishConvolution(context, FromImages(y, rank));
}

LayerClass TransposeLayer(std::string_view name, std::string_view doc, size_t rank) {
  ClassSchema schema =
      ConvSchema(name, doc, rank,
                 {Int("filters", "Channels of the output.").AtLeast(1),
                  Ints("output_padding", "Elements added to the output; none: Keras' rule.")
                      .Optional()
                      .AtLeast(0)},
                 {"kernel"});
  return {.schema = std::move(schema),
          .build = [rank](LayerContext* context) { return BuildTranspose(context, rank); }};
}

}  // namespace

LayerClass Conv1DTransposeLayer() {
  return TransposeLayer("Conv1DTranspose", "A transposed convolution: it makes sequences longer.",
                        1);
}

LayerClass Conv2DTransposeLayer() {
  return TransposeLayer("Conv2DTranspose", "A transposed convolution: it makes images larger.", 2);
}

}  // namespace cohort
