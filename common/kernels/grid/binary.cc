// add sub mul div maximum minimum pow greater greater_equal equal logical_and logical_or
// sigmoid_cross_entropy select: elementwise, broadcast.
#include "common/kernels/grid/grid.h"
#include "common/kernels/scalar_ops.h"

namespace cohort::COHORT_GRID {
namespace {

template <typename Op, typename T, typename R>
struct BinaryElement {
  const T* a;
  const T* b;
  R* y;

  COHORT_HD void operator()(int64_t i, const int64_t (&at)[2]) const {
    y[i] = Op::Of(a[at[0]], b[at[1]]);
  }
};

template <typename Op, typename T, typename R>
std::unique_ptr<DeviceKernel> MakeBinary(const Node& node, const Program& program) {
  return MakeGridKernel(MostElements(node, program),
                        [](const KernelContext& c) {
                          return WalkBody<BinaryElement<Op, T, R>, 2>{
                              {c.in(0).as<T>(), c.in(1).as<T>(), c.out().as<R>()},
                              Walk<2>::Broadcast(c.out(), {&c.in(0), &c.in(1)}),
                              c.out().elements};
                        },
                        {.in_place = sizeof(T) == sizeof(R) ? 3u : 0u});
}

template <typename Op>
DeviceKernelOr Arithmetic(const Node& node, const Program& program) {
  return GridForFloating(node, program.type(node.inputs[0]).dtype, [&](auto t) -> DeviceKernelOr {
    return MakeBinary<Op, decltype(t), decltype(t)>(node, program);
  });
}

template <typename Op>
DeviceKernelOr Comparison(const Node& node, const Program& program) {
  const DType dtype = program.type(node.inputs[0]).dtype;
  if (dtype == DType::kBool) return MakeBinary<Op, bool, bool>(node, program);
  return GridForNumeric(node, dtype, [&](auto t) -> DeviceKernelOr {
    return MakeBinary<Op, decltype(t), bool>(node, program);
  });
}

// T only has the size of the elements. Both values are always read: a branch would be mispredicted
// half of the time after a relu, and no vector code.
template <typename T>
struct SelectElement {
  const uint8_t* cond;
  const T* a;
  const T* b;
  T* y;

  COHORT_HD void operator()(int64_t i, const int64_t (&at)[3]) const {
    const T first = a[at[1]], second = b[at[2]];
    y[i] = cond[at[0]] != 0 ? first : second;
  }
};

DeviceKernelOr Select(const Node& node, const Program& program) {
  return GridForSize(node, program.type(node.inputs[1]).dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    return MakeGridKernel(
        MostElements(node, program),
        [](const KernelContext& c) {
          return WalkBody<SelectElement<T>, 3>{
              {c.in(0).as<uint8_t>(), c.in(1).as<T>(), c.in(2).as<T>(), c.out().as<T>()},
              Walk<3>::Broadcast(c.out(), {&c.in(0), &c.in(1), &c.in(2)}),
              c.out().elements};
        },
        {.in_place = 6});
  });
}

}  // namespace

DeviceKernelOr CreateBinary(const Node& node, const Program& program) {
  if (node.op == "add") return Arithmetic<scalar::Add>(node, program);
  if (node.op == "sub") return Arithmetic<scalar::Sub>(node, program);
  if (node.op == "mul") return Arithmetic<scalar::Mul>(node, program);
  if (node.op == "div") return Arithmetic<scalar::Div>(node, program);
  if (node.op == "maximum") return Arithmetic<scalar::Maximum>(node, program);
  if (node.op == "minimum") return Arithmetic<scalar::Minimum>(node, program);
  if (node.op == "pow") return Arithmetic<scalar::Pow>(node, program);
  if (node.op == "sigmoid_cross_entropy") {
    return Arithmetic<scalar::SigmoidCrossEntropy>(node, program);
  }
  if (node.op == "greater") return Comparison<scalar::Greater>(node, program);
  if (node.op == "greater_equal") return Comparison<scalar::GreaterEqual>(node, program);
  if (node.op == "equal") return Comparison<scalar::Equal>(node, program);
  if (node.op == "select") return Select(node, program);
  if (node.op == "logical_or") return MakeBinary<scalar::LogicalOr, bool, bool>(node, program);
  return MakeBinary<scalar::LogicalAnd, bool, bool>(node, program);
}

}  // namespace cohort::COHORT_GRID
