// Conv1DTranspose, Conv2DTranspose: the gradient of a convolution with respect to its input, as a
// layer (keras/src/layers/convolutional/base_conv_transpose.py).
#include <algorithm>

#include "common/model/layers/spatial.h"

namespace cohort {
namespace {

// The size of the output along one axis (_get_output_shape_given_tf_padding of
// keras/src/backend/common/backend_utils.py). `extra` is output_padding, -1 for none.
int64_t OutputSize(int64_t in, int64_t reach, int64_t stride, bool same, int64_t extra) {
  if (same) return extra < 0 ? in * stride : (in - 1) * stride + reach % 2 + extra;
  return (in - 1) * stride + (extra < 0 ? std::max(reach, stride) : reach + extra);
}

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
    const int64_t in = images.dims[1 + i].size, stride = window.options.strides[i];
    const int64_t reach = (window.taps[i] - 1) * window.options.dilations[i] + 1;
    const int64_t own = extra[i - (2 - rank)];
    if (own >= stride) return InvalidArgument("output_padding must be less than strides");
    const bool same = window.padding == "same";
    size[i] = OutputSize(in, reach, stride, same, own);
    if (!same) continue;
    // TensorFlow's padding "SAME" of the convolution that this one is the gradient of.
    if ((size[i] - 1) / stride + 1 != in) {
      return InvalidArgument("output_padding {} makes no output of {} elements", own, in);
    }
    const int64_t pad = std::max<int64_t>((in - 1) * stride + reach - size[i], 0);
    window.options.pads[2 * i] = pad / 2;
    window.options.pads[2 * i + 1] = pad - pad / 2;
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
