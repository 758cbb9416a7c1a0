// neg exp log sqrt square abs floor relu sigmoid tanh clip: x -> y of x's type.
#include <cmath>

#include "common/kernels/cpu_kernels.h"
#include "common/kernels/float_math.h"
#include "common/kernels/thread_pool.h"

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

double Sigmoid(double x) {
  const double e = std::exp(-std::abs(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
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
  if (node.op == "sigmoid") return CreateTranscendental(node, dtype, SigmoidFloat, Sigmoid);
  if (node.op == "sqrt") {
    return ForFloating(node, dtype, [](auto t) {
      using T = decltype(t);
      return MakeMap<T>([](T x) { return std::sqrt(x); });
    });
  }
  return ForFloating(node, dtype, [&](auto t) -> KernelOr {
    using T = decltype(t);
    if (node.op == "neg") return MakeMap<T>([](T x) { return static_cast<T>(-x); });
    if (node.op == "square") return MakeMap<T>([](T x) { return static_cast<T>(x * x); });
    if (node.op == "clip") return CreateClip<T>(node);
    if (node.op == "floor") return MakeMap<T>([](T x) { return std::floor(x); });
    // NaN stays NaN.
    if (node.op == "relu") return MakeMap<T>([](T x) { return x < T{0} ? T{0} : x; });
    return MakeMap<T>([](T x) { return std::abs(x); });
  });
}

}  // namespace cohort
