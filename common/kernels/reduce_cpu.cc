// reduce_sum reduce_max: x -> without (or with 1 for) some axes. The order of the additions depends
// on the shape only, never on the number of threads. Without elements: 0, and minus infinity.
#include <algorithm>
#include <limits>
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

// NaN if any is.
struct MaxOf {
  template <typename T>
  static constexpr T kEmpty = -std::numeric_limits<T>::infinity();
  template <typename T>
  static T Of(T a, T b) {
    return a > b || a != a ? a : b;
  }
};

// Reduces n consecutive values in eight lanes that are joined at the end, for any instruction set.
template <typename Op, typename T>
T ReduceRun(const T* x, int64_t n) {
  constexpr int64_t kLanes = 8;
  T lanes[kLanes];
  std::fill_n(lanes, kLanes, Op::template kEmpty<T>);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] = Op::Of(lanes[j], x[i + j]);
  }
  for (int64_t j = 0; i < n; ++i, ++j) lanes[j] = Op::Of(lanes[j], x[i]);
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t j = 0; j < half; ++j) lanes[j] = Op::Of(lanes[j], lanes[j + half]);
  }
  return lanes[0];
}

template <typename Op, typename T>
class ReduceKernel : public Kernel {
 public:
  explicit ReduceKernel(std::span<const int64_t> axes) : axes_(axes.begin(), axes.end()) {}

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
    const bool reduces_run = walk.strides[walk.rank - 1][0] == 0;
    const auto reduce = [&](int64_t begin, int64_t end) {
      ForEachRun(walk, begin, end, [&](int64_t from, const int64_t(&to)[1], int64_t n) {
        T* target = y + to[0];
        if (reduces_run) {
          *target = Op::Of(*target, ReduceRun<Op>(x + from, n));
        } else {
          for (int64_t i = 0; i < n; ++i) target[i] = Op::Of(target[i], x[from + i]);
        }
      });
    };
    // Threads share the work along the outermost axis if each has outputs of its own.
    const int64_t inside = in.elements / walk.dims[0];
    if (walk.strides[0][0] == 0) {
      reduce(0, in.elements);
    } else {
      c.pool->ParallelFor(walk.dims[0], RowGrain(inside), [&](int64_t begin, int64_t end) {
        reduce(begin * inside, end * inside);
      });
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<int64_t> axes_;
};

}  // namespace

KernelOr CreateReduceCpu(const Node& node, const Program& program) {
  const auto axes = IntsAttr(node, "axes");
  return ForFloating(node, program.type(node.inputs[0]).dtype, [&](auto t) -> KernelOr {
    using T = decltype(t);
    if (node.op == "reduce_max") return std::make_unique<ReduceKernel<MaxOf, T>>(axes);
    return std::make_unique<ReduceKernel<SumOf, T>>(axes);
  });
}

}  // namespace cohort
