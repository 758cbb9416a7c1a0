// softmax log_softmax sparsemax: x -> over the last axis. argmax: x -> int64, the last axis
// dropped. sparse_softmax_cross_entropy: (labels int64[m], logits[m,n]) -> [m]. in_top_k: (targets
// int64[m], predictions[m,n]) -> bool[m].
#include <cmath>
#include <limits>

#include "common/kernels/grid/grid.h"

namespace cohort::COHORT_GRID {
namespace {

template <typename T>
COHORT_HD T Max(const Group& g, const T* x, int64_t n) {
  return g.Fold<T>(
      n, -std::numeric_limits<T>::infinity(), [&](int64_t i) { return x[i]; },
      [](T a, T b) { return a > b || a != a ? a : b; });
}

// The maximum of a row, 0 if it is minus infinity, and the sum of exp(x - max).
template <typename T>
struct ExpSum {
  T max, sum;

  static COHORT_HD ExpSum Of(const Group& g, const T* x, int64_t n) {
    T max = Max(g, x, n);
    if (max == -std::numeric_limits<T>::infinity()) max = T{0};
    return {max, g.Sum<T>(n, [&](int64_t i) { return std::exp(x[i] - max); })};
  }
};

template <typename T>
struct SoftmaxBody {
  const T* x;
  T* y;
  int64_t rows, n;
  bool log;

  COHORT_HD int64_t items() const { return rows; }
  COHORT_HD int64_t work() const { return 8 * n; }
  COHORT_HD void operator()(const Group& g, int64_t row) const {
    const T* from = x + row * n;
    T* to = y + row * n;
    const ExpSum<T> s = ExpSum<T>::Of(g, from, n);
    const T log_sum = std::log(s.sum);
    g.ForEach(n, [&](int64_t i) {
      to[i] = log ? from[i] - s.max - log_sum : std::exp(from[i] - s.max) / s.sum;
    });
  }
};

// max(x - t, 0) with the t that makes the sum 1 (Martins and Astudillo, "From softmax to
// sparsemax", 2016). Each pass drops values at or below the threshold of those that are left, until
// none is dropped (Michelot, 1986). Values less their maximum, near 0, keep the sums exact.
template <typename T>
struct SparsemaxBody {
  const T* x;
  T* y;
  int64_t rows, n;

  COHORT_HD int64_t items() const { return rows; }
  COHORT_HD int64_t work() const { return 8 * n; }
  COHORT_HD void operator()(const Group& g, int64_t row) const {
    const T* from = x + row * n;
    T* to = y + row * n;
    const T max = Max(g, from, n);
    T threshold =
        (g.Sum<T>(n, [&](int64_t i) { return from[i] - max; }) - T{1}) / static_cast<T>(n);
    for (int64_t kept = n;;) {
      const T sum =
          g.Sum<T>(n, [&](int64_t i) { return from[i] - max > threshold ? from[i] - max : T{0}; });
      const int64_t above = g.Sum<int64_t>(
          n, [&](int64_t i) { return static_cast<int64_t>(from[i] - max > threshold); });
      if (above == kept || above == 0) break;
      threshold = (sum - T{1}) / static_cast<T>(above);
      kept = above;
    }
    g.ForEach(n, [&](int64_t i) {
      const T rest = from[i] - max - threshold;
      to[i] = rest < T{0} ? T{0} : rest;
    });
  }
};

template <typename T>
struct ArgmaxBody {
  struct Best {
    T value;
    int64_t place;
  };
  const T* x;
  int64_t* y;
  int64_t rows, n;

  COHORT_HD int64_t items() const { return rows; }
  COHORT_HD int64_t work() const { return 8 * n; }
  COHORT_HD void operator()(const Group& g, int64_t row) const {
    const T* from = x + row * n;
    // A NaN is never the best, unless it is the first.
    const Best best = g.Fold<Best>(
        n, Best{from[0], 0},
        [&](int64_t i) {
          return Best{from[i], i};
        },
        [](Best a, Best b) {
          const bool wins = b.value > a.value || (b.value == a.value && b.place < a.place);
          return Best{wins ? b.value : a.value, wins ? b.place : a.place};
        });
    g.ForEach(1, [&](int64_t) { y[row] = best.place; });
  }
};

template <typename T>
struct SparseCrossEntropyBody {
  const int64_t* labels;
  const T* logits;
  T* y;
  int64_t rows, n;
  KernelError* error;

  COHORT_HD int64_t items() const { return rows; }
  COHORT_HD int64_t work() const { return 8 * n; }
  COHORT_HD void operator()(const Group& g, int64_t row) const {
    const T* from = logits + row * n;
    const int64_t label = labels[row];
    const ExpSum<T> s = ExpSum<T>::Of(g, from, n);
    g.ForEach(1, [&](int64_t) {
      const bool valid = label >= 0 && label < n;
      if (!valid) Report(error, row, label);
      y[row] = valid ? s.max + std::log(s.sum) - from[label] : T{0};
    });
  }
};

// Fewer than k classes have a larger prediction than the target. So a class that ties with the k-th
// one is in. As in TensorFlow, the answer is false if the target is no class or if a prediction of
// the example is not finite.
template <typename T>
struct InTopKBody {
  const int64_t* targets;
  const T* predictions;
  bool* y;
  int64_t rows, n, k;

  COHORT_HD int64_t items() const { return rows; }
  COHORT_HD int64_t work() const { return 8 * n; }
  COHORT_HD void operator()(const Group& g, int64_t row) const {
    const T* from = predictions + row * n;
    const int64_t target = targets[row];
    const bool valid = target >= 0 && target < n;
    const T own = valid ? from[target] : T{0};
    const int64_t larger =
        g.Sum<int64_t>(n, [&](int64_t i) { return static_cast<int64_t>(from[i] > own); });
    const int64_t infinite = g.Sum<int64_t>(
        n, [&](int64_t i) { return static_cast<int64_t>(!(from[i] - from[i] == T{0})); });
    g.ForEach(1, [&](int64_t) { y[row] = valid && infinite == 0 && larger < k; });
  }
};

int64_t LastDim(const ValueView& v) { return v.dims[v.rank - 1]; }

// Rows along the last axis; 0 if they have no elements.
int64_t Rows(const ValueView& v) { return v.elements == 0 ? 0 : v.elements / LastDim(v); }

int64_t MostRows(const ValueType& type) {
  return CapacityElements(type) / std::max<int64_t>(type.dims.back().size, 1);
}

template <typename T>
DeviceKernelOr SparseCrossEntropy(int64_t most_rows) {
  GridTraits traits;
  traits.status_of = [](const KernelError& e, const KernelContext& c) {
    return InvalidArgument("label {} of example {} does not lie in [0, {})", e.value, e.position,
                           c.in(1).dims[1]);
  };
  return MakeGridKernel(
      most_rows,
      [](const KernelContext& c) {
        return SparseCrossEntropyBody<T>{c.in(0).as<int64_t>(), c.in(1).as<T>(), c.out().as<T>(),
                                         c.in(1).dims[0],       c.in(1).dims[1], c.error};
      },
      std::move(traits));
}

}  // namespace

DeviceKernelOr CreateRows(const Node& node, const Program& program) {
  const size_t values = node.inputs.size() - 1;  // labels and targets stand before them
  const ValueType& x = program.type(node.inputs[values]);
  const int64_t most_rows = MostRows(x);
  return GridForFloating(node, x.dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    if (node.op == "sparse_softmax_cross_entropy") return SparseCrossEntropy<T>(most_rows);
    if (node.op == "in_top_k") {
      return MakeGridKernel(most_rows, [k = IntAttr(node, "k")](const KernelContext& c) {
        return InTopKBody<T>{c.in(0).as<int64_t>(), c.in(1).as<T>(), c.out().as<bool>(),
                             c.in(1).dims[0],       c.in(1).dims[1], k};
      });
    }
    if (node.op == "argmax") {
      return MakeGridKernel(most_rows, [](const KernelContext& c) {
        return ArgmaxBody<T>{c.in(0).as<T>(), c.out().as<int64_t>(), Rows(c.in(0)),
                             LastDim(c.in(0))};
      });
    }
    if (node.op == "sparsemax") {
      return MakeGridKernel(most_rows,
                            [](const KernelContext& c) {
                              return SparsemaxBody<T>{c.in(0).as<T>(), c.out().as<T>(),
                                                      Rows(c.in(0)), LastDim(c.in(0))};
                            },
                            {.in_place = 1});
    }
    const bool log = node.op == "log_softmax";
    return MakeGridKernel(most_rows,
                          [log](const KernelContext& c) {
                            return SoftmaxBody<T>{c.in(0).as<T>(), c.out().as<T>(), Rows(c.in(0)),
                                                  LastDim(c.in(0)), log};
                          },
                          {.in_place = 1});
  });
}

}  // namespace cohort::COHORT_GRID
