// argsort: x -> int64, the places of the elements along the last axis in ascending order; equal
// elements keep their order, and NaN is the largest number.
#include <algorithm>
#include <numeric>

#include "common/base/thread_pool.h"
#include "common/kernels/cpu_kernels.h"

namespace cohort {
namespace {

template <typename T>
class ArgsortKernel : public Kernel {
 public:
  explicit ArgsortKernel(bool descending) : descending_(descending) {}

  absl::Status Run(const KernelContext& c) const override {
    const ValueView& in = c.in(0);
    if (in.elements == 0) return absl::OkStatus();
    const int64_t n = in.dims[in.rank - 1];
    c.pool->ParallelFor(in.elements / n, RowGrain(n * 32), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        SortRow(in.as<T>() + row * n, c.out().as<int64_t>() + row * n, n);
      }
    });
    return absl::OkStatus();
  }

 private:
  static bool Less(T a, T b) { return a < b || (b != b && a == a); }

  void SortRow(const T* x, int64_t* y, int64_t n) const {
    std::iota(y, y + n, int64_t{0});
    std::stable_sort(y, y + n, [this, x](int64_t a, int64_t b) {
      return descending_ ? Less(x[b], x[a]) : Less(x[a], x[b]);
    });
  }

  const bool descending_;
};

}  // namespace

KernelOr CreateArgsortCpu(const Node& node, const Program& program) {
  const bool descending = BoolAttr(node, "descending");
  const DType dtype = program.type(node.inputs[0]).dtype;
  if (dtype == DType::kInt64) return std::make_unique<ArgsortKernel<int64_t>>(descending);
  return ForFloating(node, dtype, [&](auto t) -> KernelOr {
    return std::make_unique<ArgsortKernel<decltype(t)>>(descending);
  });
}

}  // namespace cohort
