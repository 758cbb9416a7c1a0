// Conv3D and Conv3DTranspose (keras/src/layers/convolutional/base_conv.py, base_conv_transpose.py),
// as convolutions of images: the slices of a volume that the taps along its depth cover become
// channels of one image.
#include <algorithm>

#include "common/model/layers/axes.h"
#include "common/model/layers/borders.h"
#include "common/model/layers/spatial.h"

namespace cohort {
namespace {

// The windows along the depth.
struct DepthWindows {
  int64_t taps = 1, stride = 1, dilation = 1;
  int64_t before = 0, after = 0;  // padding, zeros
  int64_t out = 0;

  int64_t reach() const { return (taps - 1) * dilation + 1; }
};

// The arguments of a convolution, of which the last two axes are those of an image.
struct VolumeWindow {
  DepthWindows depth;
  ConvWindow image;
};

absl::StatusOr<VolumeWindow> MakeVolumeWindow(const Config& config) {
  COHORT_ASSIGN_OR_RETURN(const auto taps, SpatialSizes(config, "kernel_size", 3));
  COHORT_ASSIGN_OR_RETURN(const auto strides, SpatialSizes(config, "strides", 3));
  COHORT_ASSIGN_OR_RETURN(const auto dilations, SpatialSizes(config, "dilation_rate", 3));
  COHORT_RETURN_IF_ERROR(CheckStrides(strides, dilations));
  VolumeWindow window;
  window.depth = {.taps = taps[0], .stride = strides[0], .dilation = dilations[0]};
  for (size_t i = 0; i < 2; ++i) {
    window.image.taps[i] = taps[i + 1];
    window.image.options.strides[i] = strides[i + 1];
    window.image.options.dilations[i] = dilations[i + 1];
  }
  window.image.padding = config.String("padding");
  return window;
}

// [batch, depth, rows, columns, channels] as [batch depth, rows, columns, channels].
Expr Slices(Expr x) {
  if (!x.valid()) return x;
  const auto& dims = x.type().dims;
  return Reshape(x, {-1, dims[2].size, dims[3].size, dims[4].size});
}
// The same back, with this depth.
Expr Volumes(Expr slices, int64_t depth) {
  if (!slices.valid()) return slices;
  const auto& dims = slices.type().dims;
  return Reshape(slices, {-1, depth, dims[1].size, dims[2].size, dims[3].size});
}

// Element begin + i stride of the depth of x, for each i < out. The depth must have all of
// [begin, begin + out stride).
Expr StridedDepth(Expr x, int64_t begin, const DepthWindows& w) {
  const Expr part = Slice(x, 1, begin, w.out * w.stride);
  if (!part.valid() || w.stride == 1) return part;
  std::vector<int64_t> dims = ReshapeDims(part.type().dims);
  const int64_t elements = dims[2] * dims[3] * dims[4];
  dims[1] = w.out;
  return Reshape(Slice(Reshape(part, {-1, w.out, w.stride, elements}), 2, 0, 1), std::move(dims));
}

// The images [batch out, rows, columns, taps channels], with the channels of each group together.
Expr TapsAsChannels(Expr x, const DepthWindows& w, int64_t groups) {
  x = PadZeros(x, 1, w.before, w.after + w.stride - 1);
  if (!x.valid()) return x;
  const int64_t channels = x.type().dims[4].size;
  std::vector<Expr> taps;
  for (int64_t tap = 0; tap < w.taps; ++tap) {
    const Expr slices = Slices(StridedDepth(x, tap * w.dilation, w));
    if (!slices.valid()) return slices;
    const auto& dims = slices.type().dims;
    taps.push_back(Reshape(slices, {-1, dims[1].size, dims[2].size, groups, channels / groups}));
  }
  const Expr all = Concat(taps, 4);
  if (!all.valid()) return all;
  const auto& dims = all.type().dims;
  return Reshape(all, {-1, dims[1].size, dims[2].size, groups * dims[4].size});
}

// A kernel [taps, taps, taps, inputs, outputs] as that of images, whose inputs have all taps along
// the depth.
Expr AsKernelOfImages(Expr kernel) {
  if (!kernel.valid()) return kernel;
  const auto& dims = kernel.type().dims;
  return Reshape(Transpose(kernel, {1, 2, 0, 3, 4}),
                 {dims[1].size, dims[2].size, dims[0].size * dims[3].size, dims[4].size});
}

absl::StatusOr<Expr> VolumeKernel(LayerContext* context, const VolumeWindow& w, int64_t inputs,
                                  int64_t outputs) {
  return context->Weight("kernel",
                         {w.depth.taps, w.image.taps[0], w.image.taps[1], inputs, outputs},
                         "kernel_initializer");
}

absl::StatusOr<Expr> ConvolveBy(VolumeWindow window, Expr x, Expr kernel) {
  DepthWindows& depth = window.depth;
  const int64_t in = x.type().dims[1].size;
  if (window.image.padding == "same") {
    std::tie(depth.before, depth.after) = SamePads(in, depth.reach(), depth.stride);
  }
  const int64_t room = in + depth.before + depth.after - depth.reach();
  if (room < 0) {
    return InvalidArgument(
        "a kernel of {} elements with dilation {} does not fit into a depth of {}; use a smaller "
        "one, or padding \"same\"",
        depth.taps, depth.dilation, in);
  }
  depth.out = room / depth.stride + 1;
  const Expr images = TapsAsChannels(x, depth, window.image.options.groups);
  if (!images.valid()) return images;
  SetPads(&window.image, images.type());
  return Volumes(Conv2D(images, AsKernelOfImages(kernel), window.image.options), depth.out);
}

absl::StatusOr<LayerOutput> BuildConv3D(LayerContext* context) {
  const Config& config = context->config;
  COHORT_ASSIGN_OR_RETURN(const Expr x, SpatialInput(*context, 3));
  COHORT_ASSIGN_OR_RETURN(VolumeWindow window, MakeVolumeWindow(config));
  const int64_t channels = x.type().dims.back().size, filters = config.Int("filters");
  const int64_t groups = window.image.options.groups = config.Int("groups");
  if (channels % groups != 0 || filters % groups != 0) {
    return InvalidArgument("{} channels and {} filters are not divisible by {} groups", channels,
                           filters, groups);
  }
  COHORT_ASSIGN_OR_RETURN(const Expr kernel,
                          VolumeKernel(context, window, channels / groups, filters));
  COHORT_ASSIGN_OR_RETURN(const Expr y, ConvolveBy(std::move(window), x, kernel));
  if (!y.valid()) return LayerOutput{};
  return FinishConvolution(context, y);
}

// Each slice at i stride, and zeros between.
Expr SpreadDepth(Expr x, int64_t stride) {
  if (!x.valid() || stride == 1) return x;
  std::vector<int64_t> dims = ReshapeDims(x.type().dims);
  const int64_t elements = dims[2] * dims[3] * dims[4];
  const Expr spread = PadZeros(Reshape(x, {-1, dims[1], 1, elements}), 2, 0, stride - 1);
  dims[1] *= stride;
  return Reshape(spread, std::move(dims));
}

absl::StatusOr<LayerOutput> BuildConv3DTranspose(LayerContext* context) {
  const Config& config = context->config;
  COHORT_ASSIGN_OR_RETURN(const Expr x, SpatialInput(*context, 3));
  COHORT_ASSIGN_OR_RETURN(VolumeWindow window, MakeVolumeWindow(config));
  std::vector<int64_t> extra(3, -1);
  if (!config.IsNone("output_padding")) {
    COHORT_ASSIGN_OR_RETURN(extra, SpatialSizes(config, "output_padding", 3));
  }
  const ValueType type = x.type();
  const int64_t channels = type.dims.back().size, filters = config.Int("filters");
  COHORT_ASSIGN_OR_RETURN(const Expr kernel, VolumeKernel(context, window, filters, channels));
  const bool same = window.image.padding == "same";
  ConvOptions& options = window.image.options;
  std::array<int64_t, 2> size = {};
  for (size_t i = 0; i < 2; ++i) {
    COHORT_ASSIGN_OR_RETURN(
        const TransposedAxis axis,
        MakeTransposedAxis(type.dims[2 + i].size, window.image.taps[i], options.strides[i],
                           options.dilations[i], same, extra[i + 1]));
    size[i] = axis.size;
    options.pads[2 * i] = axis.before;
    options.pads[2 * i + 1] = axis.after;
  }
  const DepthWindows& w = window.depth;
  const int64_t depth = type.dims[1].size;
  COHORT_ASSIGN_OR_RETURN(const TransposedAxis along,
                          MakeTransposedAxis(depth, w.taps, w.stride, w.dilation, same, extra[0]));
  const Expr taps =
      Volumes(Conv2DInputGrad(Slices(x), AsKernelOfImages(kernel), size, options), depth);
  Expr sum;
  for (int64_t tap = 0; tap < w.taps && taps.valid(); ++tap) {
    const Expr own = SpreadDepth(Slice(taps, 4, tap * filters, filters), w.stride);
    const Expr placed = PadZeros(own, 1, tap * w.dilation, (w.taps - 1 - tap) * w.dilation);
    sum = sum.valid() ? sum + placed : placed;
  }
  if (!sum.valid()) return LayerOutput{};
  const int64_t missing = along.before + along.size - sum.type().dims[1].size;
  sum = PadZeros(sum, 1, 0, std::max<int64_t>(missing, 0));
  return FinishConvolution(context, Slice(sum, 1, along.before, along.size));
}

}  // namespace

absl::StatusOr<Expr> ConvolveVolumes(const Config& config, Expr x, Expr kernel) {
  COHORT_ASSIGN_OR_RETURN(VolumeWindow window, MakeVolumeWindow(config));
  return ConvolveBy(std::move(window), x, kernel);
}

LayerClass Conv3DLayer() {
  return {.schema = ConvSchema(
              "Conv3D", "A convolution over volumes [batch, depth, rows, columns, channels].", 3,
              {Int("filters", "Channels of the output.").AtLeast(1),
               Int("groups", "Groups of channels; each sees its own inputs only.")
                   .Default(1)
                   .AtLeast(1),
               Planned("lora_rank"), Planned("lora_alpha")},
              {"kernel"}),
          .build = BuildConv3D};
}

LayerClass Conv3DTransposeLayer() {
  return {.schema =
              ConvSchema("Conv3DTranspose", "A transposed convolution: it makes volumes larger.", 3,
                         {Int("filters", "Channels of the output.").AtLeast(1),
                          Ints("output_padding", "Elements added to the output; none: Keras' rule.")
                              .Optional()
                              .AtLeast(0)},
                         {"kernel"}),
          .build = BuildConv3DTranspose};
}

}  // namespace cohort
