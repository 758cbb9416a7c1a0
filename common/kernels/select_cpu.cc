// select: (cond, a, b) -> a where cond, else b; broadcast.
#include "common/kernels/broadcast.h"
#include "common/kernels/cpu_kernels.h"

namespace cohort {
namespace {

// Computes n elements of y from inputs with inner strides 0 or 1. The strides are constants, the
// conditions are bytes, and both values are always read: so the compiler makes vector code. A
// branch would be mispredicted half of the time behind a relu.
template <typename T, int64_t kStrideA, int64_t kStrideB>
void SelectRun(const uint8_t* cond, const T* a, const T* b, T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const T first = a[i * kStrideA];
    const T second = b[i * kStrideB];
    y[i] = cond[i] != 0 ? first : second;
  }
}

// T only has the size of the elements.
template <typename T>
class SelectKernel : public Kernel {
 public:
  absl::Status Run(const KernelContext& c) const override {
    if (c.out().elements == 0) return absl::OkStatus();
    const auto* cond = reinterpret_cast<const uint8_t*>(c.in(0).as<bool>());
    const T* a = c.in(1).as<T>();
    const T* b = c.in(2).as<T>();
    T* y = c.out().as<T>();
    const BroadcastPlan<3> plan(c.out(), {&c.in(0), &c.in(1), &c.in(2)});
    const auto& s = plan.inner_strides();
    ForEachRun(plan, c.pool, kElementGrain,
               [&](int64_t out, const std::array<int64_t, 3>& in, int64_t n) {
                 if (s[0] == 0) {
                   const bool first = cond[in[0]] != 0;
                   const T* from = first ? a + in[1] : b + in[2];
                   const int64_t stride = first ? s[1] : s[2];
                   for (int64_t i = 0; i < n; ++i) y[out + i] = from[i * stride];
                   return;
                 }
                 const auto run = s[1] == 1 ? (s[2] == 1 ? SelectRun<T, 1, 1> : SelectRun<T, 1, 0>)
                                            : (s[2] == 1 ? SelectRun<T, 0, 1> : SelectRun<T, 0, 0>);
                 run(cond + in[0], a + in[1], b + in[2], y + out, n);
               });
    return absl::OkStatus();
  }
  bool in_place(size_t i) const override { return i > 0; }
};

}  // namespace

KernelOr CreateSelectCpu(const Node& node, const Program& program) {
  const DType dtype = program.type(node.inputs[1]).dtype;
  switch (SizeOf(dtype)) {
    case 1:
      return std::make_unique<SelectKernel<uint8_t>>();
    case 4:
      return std::make_unique<SelectKernel<uint32_t>>();
    case 8:
      return std::make_unique<SelectKernel<uint64_t>>();
  }
  return NoKernelFor(node, dtype);
}

}  // namespace cohort
