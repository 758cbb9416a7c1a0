// reduce_sum reduce_max reduce_prod: x -> without (or with 1 for) some axes. The order of the
// additions depends on shapes only. Without elements: 0, minus infinity, and 1. sum_squares: x ->
// the sum of x x, in float64. float32 is added up in float64 (reduce_cpu.cc says why).
#include <limits>

#include "common/kernels/grid/grid.h"

namespace cohort::COHORT_GRID {
namespace {

struct SumOf {
  template <typename T>
  using Wide = double;
  template <typename T>
  static COHORT_HD T Empty() {
    return T{0};
  }
  template <typename T>
  static COHORT_HD T Of(T a, T b) {
    return a + b;
  }
};

struct ProdOf {
  template <typename T>
  using Wide = double;
  template <typename T>
  static COHORT_HD T Empty() {
    return T{1};
  }
  template <typename T>
  static COHORT_HD T Of(T a, T b) {
    return a * b;
  }
};

// NaN if any is.
struct MaxOf {
  template <typename T>
  using Wide = T;
  template <typename T>
  static COHORT_HD T Empty() {
    return -std::numeric_limits<T>::infinity();
  }
  template <typename T>
  static COHORT_HD T Of(T a, T b) {
    return a > b || a != a ? a : b;
  }
};

// The axes of the input that are kept and those that are reduced, each merged to a walk.
struct Axes {
  Walk<1> kept, reduced;
  int64_t kept_items = 1, reduced_items = 1;
};

Axes AxesOf(const ValueView& in, const std::vector<int64_t>& reduced) {
  Axes axes;
  int64_t stride = in.elements;
  for (int d = 0; d < in.rank; ++d) {
    const bool is_reduced = std::ranges::find(reduced, d) != reduced.end();
    (is_reduced ? axes.reduced_items : axes.kept_items) *= in.dims[d];
    if (in.dims[d] > 0) stride /= in.dims[d];
    (is_reduced ? axes.reduced : axes.kept).Append(in.dims[d], {stride});
  }
  axes.kept.Finish();
  axes.reduced.Finish();
  return axes;
}

template <typename Op, typename T>
COHORT_HD T Load(const T* x, const Walk<1>& walk, int64_t base, int64_t i) {
  int64_t at[1];
  walk.Find(i, at);
  return x[base + at[0]];
}

// One group per result: for few results of many elements each.
template <typename Op, typename T>
struct ReduceRowsBody {
  const T* x;
  T* y;
  Axes axes;

  COHORT_HD int64_t items() const { return axes.kept_items; }
  COHORT_HD void operator()(const Group& g, int64_t i) const {
    int64_t base[1];
    axes.kept.Find(i, base);
    using Wide = typename Op::template Wide<T>;
    const Wide all = g.Fold<Wide>(
        axes.reduced_items, Op::template Empty<Wide>(),
        [&](int64_t j) { return static_cast<Wide>(Load<Op>(x, axes.reduced, base[0], j)); },
        [](Wide a, Wide b) { return Op::Of(a, b); });
    g.ForEach(1, [&](int64_t) { y[i] = static_cast<T>(all); });
  }
};

// One thread per result and part of the reduced elements: neighboring threads read neighboring
// results, as for a bias. part[p][i] is the fold of elements p, p + parts, ...
template <typename Op, typename T>
struct ReducePartsBody {
  using Wide = typename Op::template Wide<T>;

  const T* x;
  Wide* part;
  Axes axes;
  int64_t parts;

  COHORT_HD int64_t items() const { return axes.kept_items * parts; }
  COHORT_HD void operator()(int64_t item) const {
    const int64_t i = item % axes.kept_items, p = item / axes.kept_items;
    int64_t base[1];
    axes.kept.Find(i, base);
    auto all = Op::template Empty<Wide>();
    for (int64_t j = p; j < axes.reduced_items; j += parts) {
      all = Op::Of(all, static_cast<Wide>(Load<Op>(x, axes.reduced, base[0], j)));
    }
    part[item] = all;
  }
};

template <typename Op, typename T>
struct JoinPartsBody {
  using Wide = typename Op::template Wide<T>;

  const Wide* part;
  T* y;
  int64_t results, parts;

  COHORT_HD int64_t items() const { return results; }
  COHORT_HD void operator()(int64_t i) const {
    Wide all = part[i];
    for (int64_t p = 1; p < parts; ++p) all = Op::Of(all, part[p * results + i]);
    y[i] = static_cast<T>(all);
  }
};

template <typename Op, typename T>
DeviceKernelOr Make(const Node& node, const Program& program) {
  using Wide = typename Op::template Wide<T>;
  const auto list = IntsAttr(node, "axes");
  const std::vector<int64_t> reduced(list.begin(), list.end());
  const int64_t results = MostElements(node, program);
  const ValueType& x = program.type(node.inputs[0]);
  const bool last_is_kept =
      std::ranges::find(reduced, static_cast<int64_t>(x.dims.size()) - 1) == reduced.end();
  if (!last_is_kept || results < 32) {
    return MakeGridKernel(results, [reduced](const KernelContext& c) {
      return ReduceRowsBody<Op, T>{c.in(0).as<T>(), c.out().as<T>(), AxesOf(c.in(0), reduced)};
    });
  }
  const int64_t elements = results > 0 ? CapacityElements(x) / results : 1;
  const int64_t parts = std::clamp<int64_t>(kBusyThreads / std::max<int64_t>(results, 1), 1,
                                            std::max<int64_t>(elements / 8, 1));
  GridTraits traits{.scratch_bytes = static_cast<size_t>(parts * results) * sizeof(Wide)};
  return MakeSequence(std::move(traits),
                      MakeGridKernel(parts * results,
                                     [reduced, parts](const KernelContext& c) {
                                       return ReducePartsBody<Op, T>{
                                           c.in(0).as<T>(), reinterpret_cast<Wide*>(c.scratch),
                                           AxesOf(c.in(0), reduced), parts};
                                     }),
                      MakeGridKernel(results, [parts](const KernelContext& c) {
                        return JoinPartsBody<Op, T>{reinterpret_cast<const Wide*>(c.scratch),
                                                    c.out().as<T>(), c.out().elements, parts};
                      }));
}

constexpr int64_t kMostChunks = 1024;

// One group per chunk: sums[p] is that of elements p, p + chunks, ...
template <typename T>
struct SquaresOfChunksBody {
  const T* x;
  double* sums;
  int64_t elements, chunks;

  COHORT_HD int64_t items() const { return chunks; }
  COHORT_HD void operator()(const Group& g, int64_t p) const {
    const double all = g.Sum<double>((elements - p + chunks - 1) / chunks, [&](int64_t j) {
      const auto v = static_cast<double>(x[p + j * chunks]);
      return v * v;
    });
    g.ForEach(1, [&](int64_t) { sums[p] = all; });
  }
};

struct SumOfChunksBody {
  const double* sums;
  double* y;
  int64_t chunks;

  COHORT_HD int64_t items() const { return 1; }
  COHORT_HD void operator()(const Group& g, int64_t) const {
    const double all = g.Sum<double>(chunks, [&](int64_t i) { return sums[i]; });
    g.ForEach(1, [&](int64_t) { *y = all; });
  }
};

template <typename T>
DeviceKernelOr MakeSumSquares(const ValueType& x) {
  const int64_t chunks = std::clamp<int64_t>(CapacityElements(x) / 4096, 1, kMostChunks);
  GridTraits traits{.scratch_bytes = static_cast<size_t>(chunks) * sizeof(double)};
  return MakeSequence(std::move(traits),
                      MakeGridKernel(chunks,
                                     [chunks](const KernelContext& c) {
                                       return SquaresOfChunksBody<T>{
                                           c.in(0).as<T>(), reinterpret_cast<double*>(c.scratch),
                                           c.in(0).elements, chunks};
                                     }),
                      MakeGridKernel(1, [chunks](const KernelContext& c) {
                        return SumOfChunksBody{reinterpret_cast<const double*>(c.scratch),
                                               c.out().as<double>(), chunks};
                      }));
}

}  // namespace

DeviceKernelOr CreateReduce(const Node& node, const Program& program) {
  return GridForFloating(node, program.type(node.inputs[0]).dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    if (node.op == "sum_squares") return MakeSumSquares<T>(program.type(node.inputs[0]));
    if (node.op == "reduce_max") return Make<MaxOf, T>(node, program);
    if (node.op == "reduce_prod") return Make<ProdOf, T>(node, program);
    return Make<SumOf, T>(node, program);
  });
}

}  // namespace cohort::COHORT_GRID
