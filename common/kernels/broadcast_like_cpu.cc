// broadcast_like: (x, like) -> x with the dims of like.
#include <algorithm>

#include "common/kernels/broadcast.h"
#include "common/kernels/cpu_kernels.h"

namespace cohort {
namespace {

// T only has the size of the elements.
template <typename T>
class BroadcastLikeKernel : public Kernel {
 public:
  absl::Status Run(const KernelContext& c) const override {
    if (c.out().elements == 0) return absl::OkStatus();
    const T* x = c.in(0).as<T>();
    T* y = c.out().as<T>();
    const BroadcastPlan<1> plan(c.out(), {&c.in(0)});
    const bool repeats = plan.inner_strides()[0] == 0;
    ForEachRun(plan, c.pool, kElementGrain,
               [&](int64_t to, const std::array<int64_t, 1>& from, int64_t n) {
                 if (repeats) {
                   std::fill_n(y + to, n, x[from[0]]);
                 } else {
                   std::copy_n(x + from[0], n, y + to);
                 }
               });
    return absl::OkStatus();
  }
  bool reads_data(size_t i) const override { return i == 0; }
};

}  // namespace

KernelOr CreateBroadcastLikeCpu(const Node& node, const Program& program) {
  const DType dtype = program.type(node.inputs[0]).dtype;
  switch (SizeOf(dtype)) {
    case 1:
      return std::make_unique<BroadcastLikeKernel<uint8_t>>();
    case 4:
      return std::make_unique<BroadcastLikeKernel<uint32_t>>();
    case 8:
      return std::make_unique<BroadcastLikeKernel<uint64_t>>();
  }
  return NoKernelFor(node, dtype);
}

}  // namespace cohort
