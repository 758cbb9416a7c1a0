#include "common/model/layers/spatial.h"

#include <algorithm>

#include "common/model/activations.h"
#include "common/model/regularizers.h"
#include "common/optimizers/constraints.h"

namespace cohort {

absl::StatusOr<Expr> SpatialInput(const LayerContext& context, size_t rank) {
  const Expr x = context.FloatInput(0);
  if (x.rank() != rank + 2) {
    return InvalidArgument("the input must be [batch, {}, and is {}",
                           rank == 1   ? "steps, features]"
                           : rank == 2 ? "rows, columns, channels]"
                                       : "depth, rows, columns, channels]",
                           TypeToString(x.type()));
  }
  return x;
}

absl::StatusOr<std::vector<int64_t>> SpatialSizes(const Config& config, std::string_view name,
                                                  size_t rank) {
  std::vector<int64_t> sizes = config.Ints(name);
  if (sizes.size() == 1) sizes.assign(rank, sizes[0]);
  if (sizes.size() == rank) return sizes;
  return InvalidArgument("{} must be one number{}", name,
                         rank == 1   ? ""
                         : rank == 2 ? " or two"
                                     : " or three");
}

Expr AsImages(Expr x) {
  if (!x.valid() || x.rank() != 3) return x;
  std::vector<int64_t> dims = ReshapeDims(x.type().dims);
  dims.insert(dims.begin() + 1, 1);
  return Reshape(x, std::move(dims));
}

Expr FromImages(Expr images, size_t rank) {
  if (!images.valid() || rank == 2) return images;
  std::vector<int64_t> dims = ReshapeDims(images.type().dims);
  dims.erase(dims.begin() + 1);
  return Reshape(images, std::move(dims));
}

Expr AsImageKernel(Expr kernel, size_t rank) {
  if (!kernel.valid() || rank == 2) return kernel;
  std::vector<int64_t> dims = ReshapeDims(kernel.type().dims);
  dims.insert(dims.begin(), 1);
  return Reshape(kernel, std::move(dims));
}

absl::StatusOr<ConvWindow> MakeConvWindow(const Config& config, size_t rank) {
  ConvWindow window;
  window.padding = config.String("padding");
  COHORT_ASSIGN_OR_RETURN(const auto taps, SpatialSizes(config, "kernel_size", rank));
  COHORT_ASSIGN_OR_RETURN(const auto strides, SpatialSizes(config, "strides", rank));
  COHORT_ASSIGN_OR_RETURN(const auto dilations, SpatialSizes(config, "dilation_rate", rank));
  std::copy(taps.begin(), taps.end(), window.taps.begin() + (2 - rank));
  std::copy(strides.begin(), strides.end(), window.options.strides.begin() + (2 - rank));
  std::copy(dilations.begin(), dilations.end(), window.options.dilations.begin() + (2 - rank));
  COHORT_RETURN_IF_ERROR(CheckStrides(strides, dilations));
  return window;
}

absl::Status CheckStrides(std::span<const int64_t> strides, std::span<const int64_t> dilations) {
  if (std::ranges::max(strides) == 1 || std::ranges::max(dilations) == 1) return absl::OkStatus();
  return InvalidArgument("strides above 1 and dilation_rate above 1 exclude each other");
}

std::pair<int64_t, int64_t> SamePads(int64_t in, int64_t reach, int64_t stride) {
  const int64_t out = (in - 1) / stride + 1;
  const int64_t pad = std::max<int64_t>((out - 1) * stride + reach - in, 0);
  return {pad / 2, pad - pad / 2};
}

absl::StatusOr<TransposedAxis> MakeTransposedAxis(int64_t in, int64_t taps, int64_t stride,
                                                  int64_t dilation, bool same, int64_t extra) {
  if (extra >= stride) return InvalidArgument("output_padding must be less than strides");
  const int64_t reach = (taps - 1) * dilation + 1;
  TransposedAxis axis;
  // _get_output_shape_given_tf_padding of keras/src/backend/common/backend_utils.py.
  if (!same) {
    axis.size = (in - 1) * stride + (extra < 0 ? std::max(reach, stride) : reach + extra);
    return axis;
  }
  axis.size = extra < 0 ? in * stride : (in - 1) * stride + reach % 2 + extra;
  // TensorFlow's padding "SAME" of the convolution that this one is the gradient of.
  if ((axis.size - 1) / stride + 1 != in) {
    return InvalidArgument("output_padding {} makes no output of {} elements", extra, in);
  }
  std::tie(axis.before, axis.after) = SamePads(axis.size, reach, stride);
  return axis;
}

void SetPads(ConvWindow* window, const ValueType& images) {
  if (window->padding == "valid" || images.dims.size() != 4) return;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t in = images.dims[1 + i].size, stride = window->options.strides[i];
    const int64_t reach = (window->taps[i] - 1) * window->options.dilations[i] + 1;
    const bool causal = window->padding == "causal";
    const auto [before, after] =
        causal ? std::pair(reach - 1, int64_t{0}) : SamePads(in, reach, stride);
    window->options.pads[2 * i] = before;
    window->options.pads[2 * i + 1] = after;
  }
}

absl::StatusOr<Expr> Convolve(const Config& config, size_t rank, Expr x, Expr kernel) {
  if (rank == 3) return ConvolveVolumes(config, x, kernel);
  COHORT_ASSIGN_OR_RETURN(ConvWindow window, MakeConvWindow(config, rank));
  x = AsImages(x);
  SetPads(&window, x.type());
  return FromImages(Conv2D(x, AsImageKernel(kernel, rank), window.options), rank);
}

absl::StatusOr<LayerOutput> FinishConvolution(LayerContext* context, Expr y) {
  const Config& config = context->config;
  if (!y.valid()) return LayerOutput{};
  if (config.Bool("use_bias")) {
    COHORT_ASSIGN_OR_RETURN(
        const Expr bias, context->Weight("bias", {y.type().dims.back().size}, "bias_initializer"));
    y = y + bias;
  }
  return Activate(config.Object("activation"), y);
}

ClassSchema ConvSchema(std::string_view name, std::string_view doc, size_t rank,
                       std::vector<Argument> own, std::vector<std::string_view> kernels,
                       std::vector<std::string_view> paddings) {
  const char* each = rank == 1   ? "one number"
                     : rank == 2 ? "one number, or one for rows and one for columns"
                                 : "one number, or one for each axis";
  std::vector<Argument> arguments = std::move(own);
  const auto add = [&arguments](Argument argument) { arguments.push_back(std::move(argument)); };
  const std::vector<int64_t> ones(rank, 1);
  add(Ints("kernel_size", fmt::format("Size of a window: {}.", each)).AtLeast(1));
  add(Ints("strides", "Distance between two windows.").Default(ones).AtLeast(1));
  add(String("padding", "same: windows may begin before and end after the input.")
          .Default("valid")
          .OneOf({paddings.begin(), paddings.end()}));
  add(DataFormatArgument());
  add(Ints("dilation_rate", "Distance between two elements of a window.").Default(ones).AtLeast(1));
  add(ActivationArgument("activation", "linear", "The activation."));
  add(Bool("use_bias", "False: no bias.").Default(true));
  for (const std::string_view kernel : kernels) {
    add(InitializerArgument(fmt::format("{}_initializer", kernel), "GlorotUniform",
                            "First kernel."));
  }
  add(InitializerArgument("bias_initializer", "Zeros", "First bias."));
  kernels.push_back("bias");
  for (const std::string_view variable : kernels) {
    add(RegularizerArgument(fmt::format("{}_regularizer", variable)));
    add(ConstraintArgument(fmt::format("{}_constraint", variable)));
  }
  return LayerSchema(name, doc, std::move(arguments));
}

}  // namespace cohort
