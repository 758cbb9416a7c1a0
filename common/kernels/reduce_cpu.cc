// reduce_sum reduce_max reduce_prod: x -> without (or with 1 for) some axes. The order of the
// additions depends on the shape only, never on the number of threads. Without elements: 0, minus
// infinity, and 1.
// sum_squares: x -> the sum of x x, in float64.
//
// float32 has 24 bits: a running sum of n numbers is wrong by up to n 2^-24 of the sum of their
// magnitudes. So float32 is added up in short blocks, and the blocks in float64.
#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "common/base/thread_pool.h"
#include "common/kernels/broadcast.h"
#include "common/kernels/cpu_kernels.h"

namespace cohort {
namespace {

struct SumOf {
  template <typename T>
  static constexpr T kEmpty = T{0};
  template <typename T>
  static T Of(T a, T b) {
    return a + b;
  }
};

struct ProdOf {
  template <typename T>
  static constexpr T kEmpty = T{1};
  template <typename T>
  static T Of(T a, T b) {
    return a * b;
  }
};

// NaN if any is.
struct MaxOf {
  template <typename T>
  static constexpr T kEmpty = -std::numeric_limits<T>::infinity();
  template <typename T>
  static T Of(T a, T b) {
    return a > b || a != a ? a : b;
  }
};

constexpr int64_t kLanes = 8;
// The most numbers that are added up in their own type.
constexpr int64_t kSumBlock = 128;

// Joins the lanes in pairs.
template <typename Op, typename T>
T JoinLanes(T (&lanes)[kLanes]) {
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t j = 0; j < half; ++j) lanes[j] = Op::Of(lanes[j], lanes[j + half]);
  }
  return lanes[0];
}

// Reduces n consecutive values in eight lanes that are joined at the end, for any instruction set.
template <typename Op, typename T>
T ReduceBlock(const T* x, int64_t n) {
  T lanes[kLanes];
  std::fill_n(lanes, kLanes, Op::template kEmpty<T>);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] = Op::Of(lanes[j], x[i + j]);
  }
  for (int64_t j = 0; i < n; ++i, ++j) lanes[j] = Op::Of(lanes[j], x[i]);
  return JoinLanes<Op>(lanes);
}

template <typename Op, typename T>
T ReduceRun(const T* x, int64_t n) {
  if (n <= kSumBlock) return ReduceBlock<Op>(x, n);
  auto all = static_cast<double>(Op::template kEmpty<T>);
  for (int64_t i = 0; i < n; i += kSumBlock) {
    all = Op::Of(all, static_cast<double>(ReduceBlock<Op>(x + i, std::min(kSumBlock, n - i))));
  }
  return static_cast<T>(all);
}

template <typename Op, typename T>
class ReduceKernel : public Kernel {
 public:
  ReduceKernel(std::span<const int64_t> axes, int64_t most_results)
      : axes_(axes.begin(), axes.end()), most_results_(most_results) {}

  size_t scratch_bytes() const override {
    return kWide ? static_cast<size_t>(most_results_) * sizeof(double) : 0;
  }

  absl::Status Run(const KernelContext& c) const override {
    const ValueView& in = c.in(0);
    const T* x = in.as<T>();
    T* y = c.out().as<T>();
    std::fill_n(y, c.out().elements, Op::template kEmpty<T>);
    if (in.elements == 0) return absl::OkStatus();
    // The output with its reduced axes kept is what "broadcasts" to the input.
    std::array<int64_t, kMaxRank> kept_dims;
    std::copy_n(in.dims, in.rank, kept_dims.begin());
    for (int64_t axis : axes_) kept_dims[static_cast<size_t>(axis)] = 1;
    ValueView kept = c.out();
    kept.rank = in.rank;
    kept.dims = kept_dims.data();
    const auto walk = Walk<1>::Broadcast(in, {&kept});
    if (kWide && in.elements > kSumBlock * c.out().elements) {
      auto* const wide = reinterpret_cast<double*>(c.scratch);
      std::fill_n(wide, c.out().elements, 0.0);
      ReduceTo(c, walk, x, wide);
      std::transform(wide, wide + c.out().elements, y, [](double v) { return static_cast<T>(v); });
    } else {
      ReduceTo(c, walk, x, y);
    }
    return absl::OkStatus();
  }

 private:
  // Results of many float32 numbers are added up in float64.
  static constexpr bool kWide = std::is_same_v<Op, SumOf> && std::is_same_v<T, float>;

  template <typename To>
  static void ReduceTo(const KernelContext& c, const Walk<1>& walk, const T* x, To* y) {
    const int64_t elements = c.in(0).elements;
    const bool reduces_run = walk.strides[walk.rank - 1][0] == 0;
    const auto reduce = [&](int64_t begin, int64_t end) {
      ForEachRun(walk, begin, end, [&](int64_t from, const int64_t(&to)[1], int64_t n) {
        To* target = y + to[0];
        if (reduces_run) {
          *target = Op::Of(*target, static_cast<To>(ReduceRun<Op>(x + from, n)));
        } else {
          for (int64_t i = 0; i < n; ++i) {
            target[i] = Op::Of(target[i], static_cast<To>(x[from + i]));
          }
        }
      });
    };
    // Threads share the work along the outermost axis if each has outputs of its own.
    const int64_t inside = elements / walk.dims[0];
    if (walk.strides[0][0] == 0) {
      reduce(0, elements);
    } else {
      c.pool->ParallelFor(walk.dims[0], RowGrain(inside), [&](int64_t begin, int64_t end) {
        reduce(begin * inside, end * inside);
      });
    }
  }

  const std::vector<int64_t> axes_;
  const int64_t most_results_;
};

// Scratch: the sum of each chunk.
template <typename T>
class SumSquaresKernel : public Kernel {
 public:
  explicit SumSquaresKernel(int64_t most_elements) : most_chunks_(Chunks(most_elements)) {}

  size_t scratch_bytes() const override {
    return static_cast<size_t>(most_chunks_) * sizeof(double);
  }

  absl::Status Run(const KernelContext& c) const override {
    const T* x = c.in(0).as<T>();
    const int64_t n = c.in(0).elements, chunks = Chunks(n);
    auto* const sums = reinterpret_cast<double*>(c.scratch);
    c.pool->ParallelFor(chunks, RowGrain(kChunk), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        sums[i] = OfChunk(x + i * kChunk, std::min(kChunk, n - i * kChunk));
      }
    });
    *c.out().as<double>() = ReduceBlock<SumOf>(sums, chunks);
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kChunk = 1 << 13;
  static int64_t Chunks(int64_t elements) { return (elements + kChunk - 1) / kChunk; }

  static double OfChunk(const T* x, int64_t n) {
    double lanes[kLanes] = {};
    const auto add = [&](int64_t i, int64_t j) {
      const auto v = static_cast<double>(x[i]);
      lanes[j] += v * v;
    };
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (int64_t j = 0; j < kLanes; ++j) add(i + j, j);
    }
    for (int64_t j = 0; i < n; ++i, ++j) add(i, j);
    return JoinLanes<SumOf>(lanes);
  }

  const int64_t most_chunks_;
};

}  // namespace

KernelOr CreateReduceCpu(const Node& node, const Program& program) {
  const ValueType& x = program.type(node.inputs[0]);
  return ForFloating(node, x.dtype, [&](auto t) -> KernelOr {
    using T = decltype(t);
    if (node.op == "sum_squares") {
      return std::make_unique<SumSquaresKernel<T>>(CapacityElements(x));
    }
    const auto axes = IntsAttr(node, "axes");
    const int64_t results = CapacityElements(program.type(node.outputs[0]));
    if (node.op == "reduce_max") return std::make_unique<ReduceKernel<MaxOf, T>>(axes, results);
    if (node.op == "reduce_prod") return std::make_unique<ReduceKernel<ProdOf, T>>(axes, results);
    return std::make_unique<ReduceKernel<SumOf, T>>(axes, results);
  });
}

}  // namespace cohort
