// neg exp log sqrt square abs floor relu sigmoid tanh erf softplus clip cast: x -> y.
// relu_grad clip_grad: (grad, x) -> grad where x is in a range, else 0.
#include "common/kernels/grid/grid.h"
#include "common/kernels/scalar_ops.h"

namespace cohort::COHORT_GRID {
namespace {

template <typename Op, typename T>
struct UnaryBody {
  const T* x;
  T* y;
  int64_t n;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD void operator()(int64_t i) const { y[i] = Op::Of(x[i]); }
};

template <typename Op>
DeviceKernelOr Map(const Node& node, const Program& program) {
  return GridForFloating(node, program.type(node.inputs[0]).dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    return MakeGridKernel(
        MostElements(node, program),
        [](const KernelContext& c) {
          return UnaryBody<Op, T>{c.in(0).as<T>(), c.out().as<T>(), c.out().elements};
        },
        {.in_place = 1});
  });
}

template <typename T>
struct ClipBody {
  const T* x;
  T* y;
  T min, max;
  int64_t n;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD void operator()(int64_t i) const { y[i] = x[i] < min ? min : x[i] > max ? max : x[i]; }
};

// The gradient passes where low < x, or with kClosed where low <= x <= high; a NaN then passes,
// too. The gradient is always read, so that the loop becomes vector code.
template <typename T, bool kClosed>
struct GateBody {
  const T* grad;
  const T* x;
  T* y;
  T low, high;
  int64_t n;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD void operator()(int64_t i) const {
    const T g = grad[i];
    const bool passes = kClosed ? !(x[i] < low) & !(x[i] > high) : x[i] > low;
    y[i] = passes ? g : T{0};
  }
};

DeviceKernelOr Clip(const Node& node, const Program& program) {
  return GridForFloating(node, program.type(node.inputs[0]).dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    const T min = static_cast<T>(FloatAttr(node, "min"));
    const T max = static_cast<T>(FloatAttr(node, "max"));
    return MakeGridKernel(
        MostElements(node, program),
        [min, max](const KernelContext& c) {
          return ClipBody<T>{c.in(0).as<T>(), c.out().as<T>(), min, max, c.out().elements};
        },
        {.in_place = 1});
  });
}

template <bool kClosed>
DeviceKernelOr Gate(const Node& node, const Program& program) {
  return GridForFloating(node, program.type(node.inputs[0]).dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    const T low = static_cast<T>(FloatAttr(node, "min"));  // 0 for relu_grad
    const T high = static_cast<T>(FloatAttr(node, "max"));
    return MakeGridKernel(MostElements(node, program),
                          [low, high](const KernelContext& c) {
                            return GateBody<T, kClosed>{
                                c.in(0).as<T>(), c.in(1).as<T>(), c.out().as<T>(), low, high,
                                c.out().elements};
                          },
                          {.in_place = 3});
  });
}

template <typename From, typename To>
struct CastBody {
  const From* x;
  To* y;
  int64_t n;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD void operator()(int64_t i) const { y[i] = scalar::Convert<From, To>(x[i]); }
};

template <typename From, typename To>
std::unique_ptr<DeviceKernel> MakeCast(const Node& node, const Program& program) {
  return MakeGridKernel(
      MostElements(node, program),
      [](const KernelContext& c) {
        return CastBody<From, To>{c.in(0).as<From>(), c.out().as<To>(), c.out().elements};
      },
      {.in_place = sizeof(From) == sizeof(To) ? 1u : 0u});
}

template <typename From>
DeviceKernelOr CastFrom(const Node& node, const Program& program) {
  const DType to = program.type(node.outputs[0]).dtype;
  if (to == DType::kBool) return MakeCast<From, bool>(node, program);
  return GridForNumeric(node, to, [&](auto t) -> DeviceKernelOr {
    return MakeCast<From, decltype(t)>(node, program);
  });
}

DeviceKernelOr Cast(const Node& node, const Program& program) {
  const DType from = program.type(node.inputs[0]).dtype;
  if (from == DType::kBool) return CastFrom<bool>(node, program);
  return GridForNumeric(node, from, [&](auto t) { return CastFrom<decltype(t)>(node, program); });
}

}  // namespace

DeviceKernelOr CreateUnary(const Node& node, const Program& program) {
  if (node.op == "neg") return Map<scalar::Neg>(node, program);
  if (node.op == "exp") return Map<scalar::Exp>(node, program);
  if (node.op == "log") return Map<scalar::Log>(node, program);
  if (node.op == "sqrt") return Map<scalar::Sqrt>(node, program);
  if (node.op == "square") return Map<scalar::Square>(node, program);
  if (node.op == "abs") return Map<scalar::Abs>(node, program);
  if (node.op == "floor") return Map<scalar::Floor>(node, program);
  if (node.op == "relu") return Map<scalar::Relu>(node, program);
  if (node.op == "sigmoid") return Map<scalar::Sigmoid>(node, program);
  if (node.op == "tanh") return Map<scalar::Tanh>(node, program);
  if (node.op == "erf") return Map<scalar::Erf>(node, program);
  if (node.op == "softplus") return Map<scalar::Softplus>(node, program);
  if (node.op == "clip") return Clip(node, program);
  if (node.op == "cast") return Cast(node, program);
  if (node.op == "clip_grad") return Gate<true>(node, program);
  return Gate<false>(node, program);
}

}  // namespace cohort::COHORT_GRID
