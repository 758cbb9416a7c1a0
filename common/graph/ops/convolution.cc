// Two-dimensional convolutions, channels last. The three ops are the derivatives of one bilinear
// map, so each is the gradient of the others.
#include "common/graph/ops/convolution.h"

#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/mixed_precision.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

// Bounds sizes, strides and pads, so that no product of them overflows.
constexpr int64_t kMaxConvSize = int64_t{1} << 24;

absl::Status CheckSizes(const Node& node, std::string_view name, size_t count, int64_t min) {
  const auto sizes = IntsAttr(node, name);
  const bool fits = sizes.size() == count && std::all_of(sizes.begin(), sizes.end(), [&](auto s) {
                      return s >= min && s <= kMaxConvSize;
                    });
  if (fits) return absl::OkStatus();
  return InvalidArgument("{} {} must have {} numbers of {} or more", name, DimsToString(sizes),
                         count, min);
}

absl::Status CheckConvAttrs(const Node& node) {
  COHORT_RETURN_IF_ERROR(CheckSizes(node, "strides", 2, 1));
  COHORT_RETURN_IF_ERROR(CheckSizes(node, "dilations", 2, 1));
  COHORT_RETURN_IF_ERROR(CheckSizes(node, "pads", 4, 0));
  const int64_t groups = IntAttr(node, "groups");
  if (groups < 1 || groups > kMaxConvSize) {
    return InvalidArgument("groups must be 1 or more, not {}", groups);
  }
  if (node.op != "conv2d") COHORT_RETURN_IF_ERROR(CheckSizes(node, "size", 2, 1));
  return absl::OkStatus();
}

// Axis 0 of an image may be bounded.
absl::Status CheckImage(const ValueType& type, std::string_view what) {
  bool fits = type.dims.size() == 4;
  for (size_t i = 1; fits && i < 4; ++i) {
    fits = !type.dims[i].bounded() && type.dims[i].size >= 1 && type.dims[i].size <= kMaxConvSize;
  }
  if (fits) return absl::OkStatus();
  return InvalidArgument("{} must be [batch, rows, columns, channels] with static sizes, not {}",
                         what, TypeToString(type));
}

// The windows of one axis; `out` is left 0 if none fits.
ConvAxis MakeConvAxis(const Node& node, size_t axis, int64_t in, int64_t taps) {
  ConvAxis a;
  a.in = in;
  a.taps = taps;
  a.stride = IntsAttr(node, "strides")[axis];
  a.dilation = IntsAttr(node, "dilations")[axis];
  a.before = IntsAttr(node, "pads")[2 * axis];
  a.after = IntsAttr(node, "pads")[2 * axis + 1];
  const int64_t room = in + a.before + a.after - ((taps - 1) * a.dilation + 1);
  a.out = room < 0 ? 0 : room / a.stride + 1;
  return a;
}

absl::Status CheckChannels(const ConvShape& s, int64_t kernel_inputs) {
  if (s.in_channels % s.groups != 0 || s.out_channels % s.groups != 0) {
    return InvalidArgument("{} input and {} output channels are not divisible by {} groups",
                           s.in_channels, s.out_channels, s.groups);
  }
  if (kernel_inputs == s.in_channels / s.groups) return absl::OkStatus();
  return InvalidArgument("the kernel takes {} channels, but each of the {} groups has {}",
                         kernel_inputs, s.groups, s.in_channels / s.groups);
}

absl::Status CheckWindows(const ConvShape& s) {
  for (const ConvAxis& a : s.axes) {
    if (a.out > 0) continue;
    return InvalidArgument(
        "a kernel of {} elements with dilation {} does not fit into {} elements and {} of padding; "
        "use a smaller one, or padding \"same\"",
        a.taps, a.dilation, a.in, a.before + a.after);
  }
  return absl::OkStatus();
}

// What `grad` must be for windows over an input: [batch, out, out, out_channels].
absl::Status CheckGrad(const ConvShape& s, const ValueType& grad) {
  if (grad.dims[1].size == s.axes[0].out && grad.dims[2].size == s.axes[1].out) {
    return absl::OkStatus();
  }
  return InvalidArgument("the gradient is {}, but a convolution of [{}, {}] makes [{}, {}]",
                         TypeToString(grad), s.axes[0].in, s.axes[1].in, s.axes[0].out,
                         s.axes[1].out);
}

ValueType Image(const ValueType& like, int64_t rows, int64_t columns, int64_t channels) {
  return {like.dtype, {like.dims[0], {rows}, {columns}, {channels}}};
}

absl::StatusOr<ConvShape> InferShape(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckFloating(context, 0));
  COHORT_RETURN_IF_ERROR(CheckSameDType(context, 0, 1));
  COHORT_RETURN_IF_ERROR(CheckPrecision(context));
  return MakeConvShape(context.node, context.input(0), context.input(1));
}

absl::StatusOr<Types> InferConv2d(const InferContext& context) {
  COHORT_ASSIGN_OR_RETURN(const ConvShape s, InferShape(context));
  return Types{Image(context.input(0), s.axes[0].out, s.axes[1].out, s.out_channels)};
}

absl::StatusOr<Types> InferInputGrad(const InferContext& context) {
  COHORT_ASSIGN_OR_RETURN(const ConvShape s, InferShape(context));
  return Types{Image(context.input(0), s.axes[0].in, s.axes[1].in, s.in_channels)};
}

absl::StatusOr<Types> InferKernelGrad(const InferContext& context) {
  COHORT_ASSIGN_OR_RETURN(const ConvShape s, InferShape(context));
  if (context.input(0).dims[0] != context.input(1).dims[0]) {
    return InvalidArgument("inputs 0 and 1 have different batches: {} and {}",
                           TypeToString(context.input(0)), TypeToString(context.input(1)));
  }
  return Types{
      {context.input(0).dtype,
       {{s.axes[0].taps}, {s.axes[1].taps}, {s.in_channels / s.groups}, {s.out_channels}}}};
}

// The attributes that all three ops share.
Attrs SharedAttrs(const Node& node) {
  Attrs attrs = node.attrs;
  attrs.erase("size");
  return attrs;
}

Expr InputGrad(GradientContext* c, Expr grad, Expr kernel, const ValueType& x) {
  Attrs attrs = SharedAttrs(c->node());
  attrs["size"] = std::vector<int64_t>{x.dims[1].size, x.dims[2].size};
  return c->builder()->Op("conv2d_input_grad", {grad, kernel}, std::move(attrs));
}

Expr KernelGrad(GradientContext* c, Expr x, Expr grad, const ValueType& kernel) {
  Attrs attrs = SharedAttrs(c->node());
  attrs["size"] = std::vector<int64_t>{kernel.dims[0].size, kernel.dims[1].size};
  return c->builder()->Op("conv2d_kernel_grad", {x, grad}, std::move(attrs));
}

Expr Forward(GradientContext* c, Expr x, Expr kernel) {
  return c->builder()->Op("conv2d", {x, kernel}, SharedAttrs(c->node()));
}

void Conv2dGradient(GradientContext* c) {
  const Expr x = c->input(0), kernel = c->input(1);
  if (c->needs(0)) c->Set(0, InputGrad(c, c->grad(), kernel, x.type()));
  if (c->needs(1)) c->Set(1, KernelGrad(c, x, c->grad(), kernel.type()));
}

void InputGradGradient(GradientContext* c) {
  const Expr grad = c->input(0), kernel = c->input(1);
  if (c->needs(0)) c->Set(0, Forward(c, c->grad(), kernel));
  if (c->needs(1)) c->Set(1, KernelGrad(c, c->grad(), grad, kernel.type()));
}

void KernelGradGradient(GradientContext* c) {
  const Expr x = c->input(0), grad = c->input(1);
  if (c->needs(0)) c->Set(0, InputGrad(c, grad, c->grad(), x.type()));
  if (c->needs(1)) c->Set(1, Forward(c, x, c->grad()));
}

}  // namespace

absl::StatusOr<ConvShape> MakeConvShape(const Node& node, const ValueType& first,
                                        const ValueType& second) {
  COHORT_RETURN_IF_ERROR(CheckConvAttrs(node));
  const bool of_input = node.op == "conv2d_input_grad", of_kernel = node.op == "conv2d_kernel_grad";
  COHORT_RETURN_IF_ERROR(CheckImage(first, "input 0"));
  if (of_kernel) {
    COHORT_RETURN_IF_ERROR(CheckImage(second, "input 1"));
  } else if (second.dims.size() != 4 || CapacityElements(second) == 0 ||
             std::any_of(second.dims.begin(), second.dims.end(),
                         [](const Dim& d) { return d.bounded() || d.size > kMaxConvSize; })) {
    return InvalidArgument("input 1 must be a kernel [rows, columns, inputs, outputs], not {}",
                           TypeToString(second));
  }
  ConvShape s;
  s.groups = IntAttr(node, "groups");
  for (size_t i = 0; i < 2; ++i) {
    const int64_t size = of_input || of_kernel ? IntsAttr(node, "size")[i] : 0;
    s.axes[i] = MakeConvAxis(node, i, of_input ? size : first.dims[1 + i].size,
                             of_kernel ? size : second.dims[i].size);
  }
  COHORT_RETURN_IF_ERROR(CheckWindows(s));
  s.out_channels = second.dims[3].size;
  s.in_channels = of_input ? second.dims[2].size * s.groups : first.dims[3].size;
  if (of_input && first.dims[3].size != s.out_channels) {
    return InvalidArgument("the gradient has {} channels, but the kernel makes {}",
                           first.dims[3].size, s.out_channels);
  }
  COHORT_RETURN_IF_ERROR(
      CheckChannels(s, of_kernel ? s.in_channels / s.groups : second.dims[2].size));
  if (of_input) COHORT_RETURN_IF_ERROR(CheckGrad(s, first));
  if (of_kernel) COHORT_RETURN_IF_ERROR(CheckGrad(s, second));
  return s;
}

namespace {

// All three multiply each output by each tap of its window.
double ConvolutionFlops(const Program& program, const Node& node) {
  const ValueType& first = program.type(node.inputs[0]);
  const auto shape = MakeConvShape(node, first, program.type(node.inputs[1]));
  if (!shape.ok()) return 0;
  const int64_t products = shape->axes[0].out * shape->axes[1].out * shape->kernel_elements();
  return 2 * static_cast<double>(first.dims[0].size) * static_cast<double>(products);
}

}  // namespace

std::vector<OpSchema> ConvolutionOps() {
  std::vector<AttrSchema> attrs = {{"strides", AttrKind::kInts},
                                   {"dilations", AttrKind::kInts},
                                   {"pads", AttrKind::kInts},
                                   {"groups", AttrKind::kInt},
                                   {"precision", AttrKind::kString, false}};
  std::vector<AttrSchema> sized = attrs;
  sized.push_back({"size", AttrKind::kInts});
  return {
      {"conv2d", 2, 2, 1, attrs, InferConv2d, Conv2dGradient, ConvolutionFlops},
      {"conv2d_input_grad", 2, 2, 1, sized, InferInputGrad, InputGradGradient, ConvolutionFlops},
      {"conv2d_kernel_grad", 2, 2, 1, sized, InferKernelGrad, KernelGradGradient, ConvolutionFlops},
  };
}

}  // namespace cohort::ops
