// softmax log_softmax: x -> over the last axis.
#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/thread_pool.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/float_math.h"

namespace cohort {
namespace {

void SoftmaxRowsDouble(const double* x, double* y, int64_t rows, int64_t n, bool log) {
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    double max = *std::max_element(x, x + n);
    if (max == -std::numeric_limits<double>::infinity()) max = 0;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - max);
    const double log_sum = std::log(sum);
    for (int64_t i = 0; i < n; ++i) {
      y[i] = log ? x[i] - max - log_sum : std::exp(x[i] - max) / sum;
    }
  }
}

template <typename T>
class SoftmaxKernel : public Kernel {
 public:
  explicit SoftmaxKernel(bool log) : log_(log) {}
  absl::Status Run(const KernelContext& c) const override {
    const ValueView& in = c.in(0);
    const int64_t n = in.dims[in.rank - 1];
    if (in.elements == 0) return absl::OkStatus();
    c.pool->ParallelFor(in.elements / n, RowGrain(n * 8), [&](int64_t begin, int64_t end) {
      const T* x = in.as<T>() + begin * n;
      T* y = c.out().as<T>() + begin * n;
      if constexpr (std::is_same_v<T, double>) {
        SoftmaxRowsDouble(x, y, end - begin, n, log_);
      } else if (log_) {
        LogSoftmaxRowsFloat(x, y, end - begin, n);
      } else {
        SoftmaxRowsFloat(x, y, end - begin, n);
      }
    });
    return absl::OkStatus();
  }
  bool in_place(size_t) const override { return true; }

 private:
  const bool log_;
};

}  // namespace

KernelOr CreateSoftmaxCpu(const Node& node, const Program& program) {
  const bool log = node.op == "log_softmax";
  return ForFloating(node, program.type(node.inputs[0]).dtype, [log](auto t) -> KernelOr {
    return std::make_unique<SoftmaxKernel<decltype(t)>>(log);
  });
}

}  // namespace cohort
