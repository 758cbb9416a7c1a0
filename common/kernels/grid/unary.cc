// neg exp expm1 log log1p sqrt rsqrt square abs floor round round_to_bfloat16 sign sin cos atan
// relu sigmoid tanh erf softplus clip cast stop_gradient logical_not: x -> y.
// relu_grad clip_grad: (grad, x) -> grad where x is in a range, else 0.
#include "common/kernels/grid/grid.h"
#include "common/kernels/scalar_ops.h"

namespace cohort::COHORT_GRID {
namespace {

template <typename Op, typename From, typename To>
struct UnaryBody {
  Op op;
  const From* x;
  To* y;
  int64_t n;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD void operator()(int64_t i) const { y[i] = op.Of(x[i]); }
};

template <typename From, typename To, typename Op>
std::unique_ptr<DeviceKernel> MakeUnary(const Node& node, const Program& program, Op op) {
  return MakeGridKernel(
      MostElements(node, program),
      [op](const KernelContext& c) {
        return UnaryBody<Op, From, To>{op, c.in(0).as<From>(), c.out().as<To>(), c.out().elements};
      },
      {.in_place = sizeof(From) == sizeof(To) ? 1u : 0u});
}

template <typename Op>
DeviceKernelOr Map(const Node& node, const Program& program) {
  return GridForFloating(node, program.type(node.inputs[0]).dtype, [&](auto t) -> DeviceKernelOr {
    return MakeUnary<decltype(t), decltype(t)>(node, program, Op());
  });
}

template <typename T>
struct ClipTo {
  T min, max;

  COHORT_HD T Of(T x) const { return x < min ? min : x > max ? max : x; }
};

template <typename From, typename To>
struct CastTo {
  static COHORT_HD To Of(From x) { return scalar::Convert<From, To>(x); }
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
    return MakeUnary<T, T>(
        node, program,
        ClipTo<T>{static_cast<T>(FloatAttr(node, "min")), static_cast<T>(FloatAttr(node, "max"))});
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

template <typename From>
DeviceKernelOr CastFrom(const Node& node, const Program& program) {
  const DType to = program.type(node.outputs[0]).dtype;
  if (to == DType::kBool) return MakeUnary<From, bool>(node, program, CastTo<From, bool>());
  return GridForNumeric(node, to, [&](auto t) -> DeviceKernelOr {
    return MakeUnary<From, decltype(t)>(node, program, CastTo<From, decltype(t)>());
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
  if (node.op == "round") return Map<scalar::Round>(node, program);
  if (node.op == "round_to_bfloat16") return Map<scalar::RoundToBfloat16>(node, program);
  if (node.op == "sign") return Map<scalar::Sign>(node, program);
  if (node.op == "log1p") return Map<scalar::Log1p>(node, program);
  if (node.op == "expm1") return Map<scalar::Expm1>(node, program);
  if (node.op == "rsqrt") return Map<scalar::Rsqrt>(node, program);
  if (node.op == "sin") return Map<scalar::Sin>(node, program);
  if (node.op == "cos") return Map<scalar::Cos>(node, program);
  if (node.op == "atan") return Map<scalar::Atan>(node, program);
  if (node.op == "stop_gradient") return Map<scalar::Identity>(node, program);
  if (node.op == "logical_not") {
    return MakeUnary<bool, bool>(node, program, scalar::LogicalNot());
  }
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
