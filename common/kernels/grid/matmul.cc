// matmul: a[m,k], b[k,n] -> [m,n], either operand stored transposed. batch_matmul: the same for
// each of several pairs. By the device's library, at full capacity, if only the first axes of the
// stored matrices have run-time sizes; else by a loop.
#include "common/kernels/grid/grid.h"
#include "common/kernels/grid/rounded_product.h"
#include "common/kernels/grid/zero_tail.h"

namespace cohort::COHORT_GRID {
namespace {

// Full capacity if made from types, the sizes of a run if made from views.
struct Sizes {
  int64_t batch = 1, m = 0, n = 0, k = 0;
};

template <typename T>
struct DotBody {
  const T* a;
  const T* b;
  T* y;
  Sizes s;
  bool transpose_a, transpose_b;

  COHORT_HD int64_t items() const { return s.batch * s.m * s.n; }
  COHORT_HD void operator()(int64_t item) const {
    const int64_t i = item / (s.m * s.n), row = item / s.n % s.m, column = item % s.n;
    const T* from_a = a + i * s.m * s.k + (transpose_a ? row : row * s.k);
    const T* from_b = b + i * s.k * s.n + (transpose_b ? column * s.k : column);
    const int64_t step_a = transpose_a ? s.m : 1, step_b = transpose_b ? 1 : s.n;
    T sum = 0;
    for (int64_t j = 0; j < s.k; ++j) sum += from_a[j * step_a] * from_b[j * step_b];
    y[item] = sum;
  }
};

// `T`: of the operands' elements in memory.
template <typename T>
class ProductKernel : public DeviceKernel {
 public:
  // `sums_counts`: k has a run-time size.
  ProductKernel(MatrixProduct product, bool sums_counts)
      : product_(product), sums_counts_(sums_counts) {
    if (!sums_counts) return;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const int64_t most = product.batch * product.k * (i == 0 ? product.m : product.n);
      zeros_.push_back(MakeGridKernel(most, [i, most](const KernelContext& c) {
        return ZeroTailBody<T>{c.in(i).as<T>(), c.in(i).elements, most};
      }));
    }
  }

  size_t body_bytes() const override {
    return zeros_.empty() ? 0 : zeros_.size() * zeros_[0]->body_bytes();
  }
  void WriteBodies(const KernelContext& c, uint8_t* to) const override {
    for (const auto& zero : zeros_) {
      zero->WriteBodies(c, to);
      to += zero->body_bytes();
    }
  }
  void AddTo(GraphPlan* plan, const KernelContext& c, const uint8_t* bodies) const override {
    for (const auto& zero : zeros_) {
      zero->AddTo(plan, c, bodies);
      bodies += zero->body_bytes();
    }
    MatrixProduct product = product_;
    product.a = c.in(0).data;
    product.b = c.in(1).data;
    product.c = c.out().data;
    plan->Add(product);
  }
  bool writes_tail(size_t) const override { return sums_counts_; }

 private:
  const MatrixProduct product_;
  const bool sums_counts_;
  std::vector<std::unique_ptr<DeviceKernel>> zeros_;
};

// `first`: the axis of a matrix. The product of a run's sizes.
template <typename T>
std::unique_ptr<DeviceKernel> ByLoop(const Node& node, const Program& program, size_t first) {
  const bool ta = BoolAttr(node, "transpose_a"), tb = BoolAttr(node, "transpose_b");
  return MakeGridKernel(MostElements(node, program), [ta, tb, first](const KernelContext& c) {
    const int64_t* dims = c.out().dims + first;
    return DotBody<T>{
        c.in(0).as<T>(),
        c.in(1).as<T>(),
        c.out().as<T>(),
        {first == 1 ? c.out().dims[0] : 1, dims[0], dims[1], c.in(0).dims[first + (ta ? 0 : 1)]},
        ta,
        tb};
  });
}

size_t MatrixAxis(const Node& node) { return node.op == "batch_matmul" ? 1 : 0; }

}  // namespace

DeviceKernelOr CreateMatMul(const Node& node, const Program& program) {
  const bool ta = BoolAttr(node, "transpose_a"), tb = BoolAttr(node, "transpose_b");
  const ValueType &a = program.type(node.inputs[0]), &b = program.type(node.inputs[1]);
  const ValueType& y = program.type(node.outputs[0]);
  const size_t first = MatrixAxis(node);
  bool at_capacity = true;
  for (const ValueType* type : {&a, &b, &y}) {
    for (size_t d = 1; d < type->dims.size(); ++d) at_capacity &= !type->dims[d].bounded();
  }
  const Dim& k = a.dims[first + (ta ? 0 : 1)];
  const Precision precision = PrecisionOf(node);
  MatrixProduct product{
      .dtype = a.dtype, .operands = precision, .transpose_a = ta, .transpose_b = tb};
  product.batch = first == 1 ? y.dims[0].size : 1;
  product.m = y.dims[first].size;
  product.n = y.dims[first + 1].size;
  product.k = k.size;
  if (precision != Precision::kFloat32) {
    if (!at_capacity)
      return OnRoundedOperands(node, program, RoundedAs::kFloats,
                               ByLoop<float>(node, program, first));
    return OnRoundedOperands(node, program, RoundedAs::kBits,
                             std::make_unique<ProductKernel<uint16_t>>(product, k.bounded()));
  }
  return GridForFloating(node, a.dtype, [&](auto t) -> DeviceKernelOr {
    if (!at_capacity) return ByLoop<decltype(t)>(node, program, first);
    return std::make_unique<ProductKernel<decltype(t)>>(product, k.bounded());
  });
}

DeviceKernelOr CreateMatMulLoops(const Node& node, const Program& program) {
  return GridForFloating(node, program.type(node.inputs[0]).dtype, [&](auto t) -> DeviceKernelOr {
    return ByLoop<decltype(t)>(node, program, MatrixAxis(node));
  });
}

}  // namespace cohort::COHORT_GRID
