// add sub mul div maximum minimum greater equal logical_and sigmoid_cross_entropy select:
// elementwise, broadcast.
#include "common/kernels/grid/grid.h"
#include "common/kernels/scalar_ops.h"

namespace cohort::COHORT_GRID {
namespace {

template <typename Op, typename T, typename R>
struct BinaryBody {
  const T* a;
  const T* b;
  R* y;
  Walk<2> walk;
  int64_t n;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD void operator()(int64_t i) const {
    int64_t at[2];
    walk.Find(i, at);
    y[i] = Op::Of(a[at[0]], b[at[1]]);
  }
};

template <typename Op, typename T, typename R>
std::unique_ptr<DeviceKernel> MakeBinary(const Node& node, const Program& program) {
  return MakeGridKernel(MostElements(node, program),
                        [](const KernelContext& c) {
                          return BinaryBody<Op, T, R>{
                              c.in(0).as<T>(), c.in(1).as<T>(), c.out().as<R>(),
                              Walk<2>::Of({c.out(), {&c.in(0), &c.in(1)}}), c.out().elements};
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

// T only has the size of the elements.
template <typename T>
struct SelectBody {
  const bool* cond;
  const T* a;
  const T* b;
  T* y;
  Walk<3> walk;
  int64_t n;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD void operator()(int64_t i) const {
    int64_t at[3];
    walk.Find(i, at);
    y[i] = cond[at[0]] ? a[at[1]] : b[at[2]];
  }
};

DeviceKernelOr Select(const Node& node, const Program& program) {
  return GridForSize(node, program.type(node.inputs[1]).dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    return MakeGridKernel(MostElements(node, program),
                          [](const KernelContext& c) {
                            return SelectBody<T>{
                                c.in(0).as<bool>(),
                                c.in(1).as<T>(),
                                c.in(2).as<T>(),
                                c.out().as<T>(),
                                Walk<3>::Of({c.out(), {&c.in(0), &c.in(1), &c.in(2)}}),
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
  if (node.op == "sigmoid_cross_entropy") {
    return Arithmetic<scalar::SigmoidCrossEntropy>(node, program);
  }
  if (node.op == "greater") return Comparison<scalar::Greater>(node, program);
  if (node.op == "equal") return Comparison<scalar::Equal>(node, program);
  if (node.op == "select") return Select(node, program);
  return MakeBinary<scalar::LogicalAnd, bool, bool>(node, program);
}

}  // namespace cohort::COHORT_GRID
