// sparsemax: x -> max(x - t, 0) over the last axis, with the t that makes the sum 1 (Martins and
// Astudillo, "From softmax to sparsemax", 2016).
#include <algorithm>
#include <cmath>

#include "common/base/thread_pool.h"
#include "common/kernels/cpu_kernels.h"

namespace cohort {
namespace {

// The threshold of a row. Each pass drops values at or below the threshold of those that are left,
// until none is dropped (Michelot, 1986). NaN if a value is.
template <typename T>
T SparsemaxThreshold(const T* x, int64_t n) {
  T threshold = 0;
  for (int64_t i = 0; i < n; ++i) threshold += x[i];
  threshold = (threshold - 1) / static_cast<T>(n);
  for (int64_t kept = n;;) {
    T sum = 0;
    int64_t above = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (!(x[i] > threshold)) continue;
      sum += x[i];
      ++above;
    }
    if (above == kept || above == 0) return threshold;
    threshold = (sum - 1) / static_cast<T>(above);
    kept = above;
  }
}

template <typename T>
class SparsemaxKernel : public Kernel {
 public:
  absl::Status Run(const KernelContext& c) const override {
    const ValueView& in = c.in(0);
    const int64_t n = in.dims[in.rank - 1];
    if (in.elements == 0) return absl::OkStatus();
    c.pool->ParallelFor(in.elements / n, RowGrain(n * 8), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* x = in.as<T>() + row * n;
        T* y = c.out().as<T>() + row * n;
        // Values near 0 keep the sums exact.
        const T max = *std::max_element(x, x + n);
        for (int64_t i = 0; i < n; ++i) y[i] = x[i] - max;
        const T threshold = SparsemaxThreshold(y, n);
        for (int64_t i = 0; i < n; ++i) {
          const T rest = y[i] - threshold;
          y[i] = rest < T{0} ? T{0} : rest;
        }
      }
    });
    return absl::OkStatus();
  }
  bool in_place(size_t) const override { return true; }
};

}  // namespace

KernelOr CreateSparsemaxCpu(const Node& node, const Program& program) {
  return ForFloating(node, program.type(node.inputs[0]).dtype, [](auto t) -> KernelOr {
    return std::make_unique<SparsemaxKernel<decltype(t)>>();
  });
}

}  // namespace cohort
