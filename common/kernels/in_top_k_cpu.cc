// in_top_k: (targets int64[m], predictions[m,n]) -> bool [m]: fewer than k classes have a larger
// prediction than the target. So a class that ties with the k-th one is in. As in TensorFlow, the
// answer is false if the target is no class or if a prediction of the example is not finite.
#include <cmath>

#include "common/base/thread_pool.h"
#include "common/kernels/cpu_kernels.h"

namespace cohort {
namespace {

template <typename T>
bool InTopK(int64_t target, const T* predictions, int64_t n, int64_t k) {
  if (target < 0 || target >= n) return false;
  int64_t larger = 0;
  bool finite = true;
  for (int64_t i = 0; i < n; ++i) {
    larger += predictions[i] > predictions[target] ? 1 : 0;
    finite &= std::isfinite(predictions[i]);
  }
  return finite && larger < k;
}

template <typename T>
class InTopKKernel : public Kernel {
 public:
  explicit InTopKKernel(int64_t k) : k_(k) {}

  absl::Status Run(const KernelContext& c) const override {
    const int64_t* targets = c.in(0).as<int64_t>();
    const T* predictions = c.in(1).as<T>();
    const int64_t rows = c.in(1).dims[0], n = c.in(1).dims[1];
    bool* y = c.out().as<bool>();
    c.pool->ParallelFor(rows, RowGrain(n), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) y[r] = InTopK(targets[r], predictions + r * n, n, k_);
    });
    return absl::OkStatus();
  }

 private:
  const int64_t k_;
};

}  // namespace

KernelOr CreateInTopKCpu(const Node& node, const Program& program) {
  return ForFloating(node, program.type(node.inputs[1]).dtype, [&](auto t) -> KernelOr {
    return std::make_unique<InTopKKernel<decltype(t)>>(IntAttr(node, "k"));
  });
}

}  // namespace cohort
