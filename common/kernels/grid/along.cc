// argsort: x -> int64, the places of the elements along the last axis in ascending order.
// gather_along: (x[..., n], index[..., k]) -> [..., k]; a place outside of the axis gives 0.
// gather_along_grad: (grad[..., k], index[..., k], x for its shape) -> [..., n]: the sums of grad
// by index, added in order of position.
#include <algorithm>

#include "common/kernels/grid/grid.h"

namespace cohort::COHORT_GRID {
namespace {

int64_t SizeAlong(const ValueView& v) { return v.dims[v.rank - 1]; }

int64_t RowsAlong(const ValueView& v) { return v.elements == 0 ? 0 : v.elements / SizeAlong(v); }

// One element: it counts those before it, so no two elements wait for each other. NaN is the
// largest number.
template <typename T>
struct RankBody {
  const T* x;
  int64_t* y;
  int64_t n, elements;
  bool descending;

  COHORT_HD int64_t items() const { return elements; }
  COHORT_HD int64_t work() const { return n; }
  COHORT_HD void operator()(int64_t item) const {
    const int64_t begin = item / n * n;
    const T own = x[item];
    int64_t before = 0;
    for (int64_t i = begin; i < begin + n; ++i) {
      const bool less = descending ? Less(own, x[i]) : Less(x[i], own);
      const bool greater = descending ? Less(x[i], own) : Less(own, x[i]);
      before += static_cast<int64_t>(less || (!greater && i < item));
    }
    y[begin + before] = item - begin;
  }
  static COHORT_HD bool Less(T a, T b) { return a < b || (b != b && a == a); }
};

// T only has the size of the elements.
template <typename T>
struct GatherAlongBody {
  const T* x;
  const int64_t* index;
  T* y;
  int64_t n, k, elements;

  COHORT_HD int64_t items() const { return elements; }
  COHORT_HD void operator()(int64_t item) const {
    const int64_t place = index[item];
    y[item] = place >= 0 && place < n ? x[item / k * n + place] : T{0};
  }
};

template <typename T>
struct SumAlongBody {
  const T* grad;
  const int64_t* index;
  T* y;
  int64_t rows, n, k;

  COHORT_HD int64_t items() const { return rows; }
  COHORT_HD int64_t work() const { return n + k; }
  COHORT_HD void operator()(const Group& g, int64_t row) const {
    g.ForEach(n, [&](int64_t place) {
      T sum = 0;
      for (int64_t i = row * k; i < (row + 1) * k; ++i) sum += index[i] == place ? grad[i] : T{0};
      y[row * n + place] = sum;
    });
  }
  // In one pass over the indices.
  void RunAll(int64_t begin, int64_t end) const {
    std::fill(y + begin * n, y + end * n, T{0});
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t i = row * k; i < (row + 1) * k; ++i) {
        if (index[i] >= 0 && index[i] < n) y[row * n + index[i]] += grad[i];
      }
    }
  }
};

DeviceKernelOr Argsort(const Node& node, const Program& program) {
  return GridForNumeric(node, program.type(node.inputs[0]).dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    return MakeGridKernel(MostElements(node, program),
                          [descending = BoolAttr(node, "descending")](const KernelContext& c) {
                            return RankBody<T>{c.in(0).as<T>(), c.out().as<int64_t>(),
                                               SizeAlong(c.in(0)), c.in(0).elements, descending};
                          });
  });
}

DeviceKernelOr GatherAlong(const Node& node, const Program& program) {
  return GridForSize(node, program.type(node.inputs[0]).dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    return MakeGridKernel(MostElements(node, program), [](const KernelContext& c) {
      return GatherAlongBody<T>{c.in(0).as<T>(),    c.in(1).as<int64_t>(), c.out().as<T>(),
                                SizeAlong(c.in(0)), SizeAlong(c.in(1)),    c.out().elements};
    });
  });
}

DeviceKernelOr GatherAlongGrad(const Node& node, const Program& program) {
  const ValueType& y = program.type(node.outputs[0]);
  const int64_t most_rows = CapacityElements(y) / std::max<int64_t>(y.dims.back().size, 1);
  return GridForFloating(node, y.dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    return MakeGridKernel(most_rows,
                          [](const KernelContext& c) {
                            return SumAlongBody<T>{c.in(0).as<T>(),    c.in(1).as<int64_t>(),
                                                   c.out().as<T>(),    RowsAlong(c.out()),
                                                   SizeAlong(c.out()), SizeAlong(c.in(1))};
                          },
                          {.dims_only = 4});
  });
}

}  // namespace

DeviceKernelOr CreateAlong(const Node& node, const Program& program) {
  if (node.op == "argsort") return Argsort(node, program);
  const DType index = program.type(node.inputs[1]).dtype;
  if (index != DType::kInt64) return NoKernelFor(node, index);
  return node.op == "gather_along" ? GatherAlong(node, program) : GatherAlongGrad(node, program);
}

}  // namespace cohort::COHORT_GRID
