// neg exp log sqrt square abs floor relu sigmoid tanh erf softplus clip: x -> y of x's type.
// relu_grad clip_grad: (grad, x) -> grad where x is in a range, else 0.
#include <cmath>

#include "common/base/thread_pool.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/float_math.h"
#include "common/kernels/scalar_ops.h"

namespace cohort {
namespace {

// y[i] = f(x[i]) where F is a stateless or small functor over T.
template <typename T, typename F>
class MapKernel : public Kernel {
 public:
  explicit MapKernel(F f) : f_(f) {}
  absl::Status Run(const KernelContext& c) const override {
    const T* x = c.in(0).as<T>();
    T* y = c.out().as<T>();
    const F f = f_;
    c.pool->ParallelFor(c.in(0).elements, kElementGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = f(x[i]);
    });
    return absl::OkStatus();
  }
  bool in_place(size_t) const override { return true; }

 private:
  F f_;
};

template <typename T, typename F>
KernelOr MakeMap(F f) {
  return std::make_unique<MapKernel<T, F>>(f);
}

// A loop of float_math.h.
class FloatMathKernel : public Kernel {
 public:
  using Loop = void (*)(const float* x, float* y, int64_t n);
  explicit FloatMathKernel(Loop loop) : loop_(loop) {}
  absl::Status Run(const KernelContext& c) const override {
    const float* x = c.in(0).as<float>();
    float* y = c.out().as<float>();
    c.pool->ParallelFor(c.in(0).elements, kElementGrain / 8, [&](int64_t begin, int64_t end) {
      loop_(x + begin, y + begin, end - begin);
    });
    return absl::OkStatus();
  }
  bool in_place(size_t) const override { return true; }

 private:
  Loop loop_;
};

// y[i] = f(x[i]) ? grad[i] : 0. The gradient is always read, so that the loop becomes vector code.
template <typename T, typename F>
class GateKernel : public Kernel {
 public:
  explicit GateKernel(F f) : f_(f) {}
  absl::Status Run(const KernelContext& c) const override {
    const T* grad = c.in(0).as<T>();
    const T* x = c.in(1).as<T>();
    T* y = c.out().as<T>();
    const F f = f_;
    c.pool->ParallelFor(c.in(0).elements, kElementGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T g = grad[i];
        y[i] = f(x[i]) ? g : T{0};
      }
    });
    return absl::OkStatus();
  }
  bool in_place(size_t) const override { return true; }

 private:
  F f_;
};

template <typename T, typename F>
KernelOr MakeGate(F f) {
  return std::make_unique<GateKernel<T, F>>(f);
}

KernelOr CreateTranscendental(const Node& node, DType dtype, FloatMathKernel::Loop loop,
                              double (*f)(double)) {
  if (dtype == DType::kFloat32) return std::make_unique<FloatMathKernel>(loop);
  if (dtype == DType::kFloat64) return MakeMap<double>(f);
  return NoKernelFor(node, dtype);
}

template <typename T>
KernelOr CreateClip(const Node& node) {
  const T min = static_cast<T>(FloatAttr(node, "min"));
  const T max = static_cast<T>(FloatAttr(node, "max"));
  return MakeMap<T>([min, max](T x) { return x < min ? min : x > max ? max : x; });
}

}  // namespace

KernelOr CreateUnaryCpu(const Node& node, const Program& program) {
  const DType dtype = program.type(node.inputs[0]).dtype;
  if (node.op == "exp") return CreateTranscendental(node, dtype, ExpFloat, std::exp);
  if (node.op == "log") return CreateTranscendental(node, dtype, LogFloat, std::log);
  if (node.op == "tanh") return CreateTranscendental(node, dtype, TanhFloat, std::tanh);
  if (node.op == "sigmoid")
    return CreateTranscendental(node, dtype, SigmoidFloat, scalar::Sigmoid::Of<double>);
  if (node.op == "erf") return CreateTranscendental(node, dtype, ErfFloat, std::erf);
  if (node.op == "softplus") {
    return CreateTranscendental(node, dtype, SoftplusFloat, scalar::Softplus::Of<double>);
  }
  if (node.op == "sqrt") {
    return ForFloating(node, dtype, [](auto t) {
      using T = decltype(t);
      return MakeMap<T>([](T x) { return scalar::Sqrt::Of(x); });
    });
  }
  return ForFloating(node, dtype, [&](auto t) -> KernelOr {
    using T = decltype(t);
    if (node.op == "neg") return MakeMap<T>([](T x) { return scalar::Neg::Of(x); });
    if (node.op == "square") return MakeMap<T>([](T x) { return scalar::Square::Of(x); });
    if (node.op == "clip") return CreateClip<T>(node);
    if (node.op == "clip_grad") {
      const T min = static_cast<T>(FloatAttr(node, "min"));
      const T max = static_cast<T>(FloatAttr(node, "max"));
      // NaN passes.
      return MakeGate<T>([min, max](T x) { return !(x < min) & !(x > max); });
    }
    if (node.op == "relu_grad") return MakeGate<T>([](T x) { return x > T{0}; });
    if (node.op == "floor") return MakeMap<T>([](T x) { return scalar::Floor::Of(x); });
    if (node.op == "relu") return MakeMap<T>([](T x) { return scalar::Relu::Of(x); });
    return MakeMap<T>([](T x) { return scalar::Abs::Of(x); });
  });
}

}  // namespace cohort
