// sigmoid_cross_entropy: (labels, logits) -> elementwise.
// sparse_softmax_cross_entropy: (labels int64[m], logits[m,n]) -> [m]: log(sum(exp(x))) - x[label].
#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/thread_pool.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/float_math.h"

namespace cohort {
namespace {

void SigmoidCrossEntropy(const float* z, const float* x, float* y, int64_t n) {
  SigmoidCrossEntropyFloat(z, x, y, n);
}
void SigmoidCrossEntropy(const double* z, const double* x, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = std::max(x[i], 0.0) - x[i] * z[i] + std::log1p(std::exp(-std::abs(x[i])));
  }
}

template <typename T>
class SigmoidCrossEntropyKernel : public Kernel {
 public:
  absl::Status Run(const KernelContext& c) const override {
    c.pool->ParallelFor(c.out().elements, kElementGrain / 8, [&](int64_t begin, int64_t end) {
      SigmoidCrossEntropy(c.in(0).as<T>() + begin, c.in(1).as<T>() + begin, c.out().as<T>() + begin,
                          end - begin);
    });
    return absl::OkStatus();
  }
  bool in_place(size_t) const override { return true; }
};

void LogSumExpRows(const float* x, float* y, int64_t rows, int64_t n) {
  LogSumExpRowsFloat(x, y, rows, n);
}
void LogSumExpRows(const double* x, double* y, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r, x += n) {
    double max = *std::max_element(x, x + n);
    if (max == -std::numeric_limits<double>::infinity()) max = 0;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - max);
    y[r] = max + std::log(sum);
  }
}

template <typename T>
class SparseSoftmaxCrossEntropyKernel : public Kernel {
 public:
  absl::Status Run(const KernelContext& c) const override {
    const int64_t* labels = c.in(0).as<int64_t>();
    const T* logits = c.in(1).as<T>();
    const int64_t rows = c.in(1).dims[0], n = c.in(1).dims[1];
    T* y = c.out().as<T>();
    for (int64_t r = 0; r < rows; ++r) {
      if (labels[r] < 0 || labels[r] >= n) {
        return InvalidArgument("label {} of example {} does not lie in [0, {})", labels[r], r, n);
      }
    }
    c.pool->ParallelFor(rows, RowGrain(8 * n), [&](int64_t begin, int64_t end) {
      LogSumExpRows(logits + begin * n, y + begin, end - begin, n);
      for (int64_t r = begin; r < end; ++r) y[r] -= logits[r * n + labels[r]];
    });
    return absl::OkStatus();
  }
};

}  // namespace

KernelOr CreateSigmoidCrossEntropyCpu(const Node& node, const Program& program) {
  return ForFloating(node, program.type(node.inputs[1]).dtype, [](auto t) -> KernelOr {
    return std::make_unique<SigmoidCrossEntropyKernel<decltype(t)>>();
  });
}

KernelOr CreateSparseSoftmaxCrossEntropyCpu(const Node& node, const Program& program) {
  return ForFloating(node, program.type(node.inputs[1]).dtype, [](auto t) -> KernelOr {
    return std::make_unique<SparseSoftmaxCrossEntropyKernel<decltype(t)>>();
  });
}

}  // namespace cohort
