// add sub mul div maximum minimum greater equal logical_and: (a, b) -> broadcast.
#include "common/kernels/broadcast.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/scalar_ops.h"

namespace cohort {
namespace {

// y[i] = Op(a[i * stride_a], b[i * stride_b]) with strides of 0 or 1.
template <typename Op, typename T, typename R>
void BinaryRun(const T* a, int64_t stride_a, const T* b, int64_t stride_b, R* y, int64_t n) {
  if (stride_a == 1 && stride_b == 1) {
    for (int64_t i = 0; i < n; ++i) y[i] = Op::Of(a[i], b[i]);
  } else if (stride_a == 1) {
    const T scalar = *b;
    for (int64_t i = 0; i < n; ++i) y[i] = Op::Of(a[i], scalar);
  } else if (stride_b == 1) {
    const T scalar = *a;
    for (int64_t i = 0; i < n; ++i) y[i] = Op::Of(scalar, b[i]);
  } else {
    const R result = Op::Of(*a, *b);
    for (int64_t i = 0; i < n; ++i) y[i] = result;
  }
}

template <typename Op, typename T, typename R>
class BinaryKernel : public Kernel {
 public:
  absl::Status Run(const KernelContext& c) const override {
    if (c.out().elements == 0) return absl::OkStatus();
    const T* a = c.in(0).as<T>();
    const T* b = c.in(1).as<T>();
    R* y = c.out().as<R>();
    const BroadcastPlan<2> plan(c.out(), {&c.in(0), &c.in(1)});
    const auto& strides = plan.inner_strides();
    ForEachRun(plan, c.pool, kElementGrain,
               [&](int64_t out, const std::array<int64_t, 2>& in, int64_t n) {
                 BinaryRun<Op>(a + in[0], strides[0], b + in[1], strides[1], y + out, n);
               });
    return absl::OkStatus();
  }
  bool in_place(size_t) const override { return sizeof(T) == sizeof(R); }
};

template <typename Op>
KernelOr CreateArithmetic(const Node& node, DType dtype) {
  return ForFloating(node, dtype, [](auto t) -> KernelOr {
    return std::make_unique<BinaryKernel<Op, decltype(t), decltype(t)>>();
  });
}

template <typename Op>
KernelOr CreateComparison(const Node& node, DType dtype) {
  if (dtype == DType::kBool) return std::make_unique<BinaryKernel<Op, bool, bool>>();
  return ForNumeric(node, dtype, [](auto t) -> KernelOr {
    return std::make_unique<BinaryKernel<Op, decltype(t), bool>>();
  });
}

}  // namespace

KernelOr CreateBinaryCpu(const Node& node, const Program& program) {
  const DType dtype = program.type(node.inputs[0]).dtype;
  if (node.op == "add") return CreateArithmetic<scalar::Add>(node, dtype);
  if (node.op == "sub") return CreateArithmetic<scalar::Sub>(node, dtype);
  if (node.op == "mul") return CreateArithmetic<scalar::Mul>(node, dtype);
  if (node.op == "maximum") return CreateArithmetic<scalar::Maximum>(node, dtype);
  if (node.op == "minimum") return CreateArithmetic<scalar::Minimum>(node, dtype);
  if (node.op == "greater") return CreateComparison<scalar::Greater>(node, dtype);
  if (node.op == "equal") return CreateComparison<scalar::Equal>(node, dtype);
  if (node.op == "logical_and")
    return std::make_unique<BinaryKernel<scalar::LogicalAnd, bool, bool>>();
  return CreateArithmetic<scalar::Div>(node, dtype);
}

}  // namespace cohort
