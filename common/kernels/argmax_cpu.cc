// argmax: x -> int64, the last axis dropped; the first of equal maxima.
#include "common/base/thread_pool.h"
#include "common/kernels/cpu_kernels.h"

namespace cohort {
namespace {

template <typename T>
class ArgmaxKernel : public Kernel {
 public:
  absl::Status Run(const KernelContext& c) const override {
    const ValueView& in = c.in(0);
    if (in.elements == 0) return absl::OkStatus();
    const int64_t n = in.dims[in.rank - 1];
    c.pool->ParallelFor(in.elements / n, RowGrain(n), [&](int64_t begin, int64_t end) {
      const T* x = in.as<T>() + begin * n;
      int64_t* y = c.out().as<int64_t>();
      for (int64_t r = begin; r < end; ++r, x += n) {
        int64_t best = 0;
        for (int64_t i = 1; i < n; ++i) {
          if (x[i] > x[best]) best = i;
        }
        y[r] = best;
      }
    });
    return absl::OkStatus();
  }
};

}  // namespace

KernelOr CreateArgmaxCpu(const Node& node, const Program& program) {
  return ForFloating(node, program.type(node.inputs[0]).dtype, [](auto t) -> KernelOr {
    return std::make_unique<ArgmaxKernel<decltype(t)>>();
  });
}

}  // namespace cohort
