// cast: x -> x in another dtype. To bool: true unless it is zero. To an integer: rounded towards
// zero; a value out of range becomes the nearest one in range (NaN: 0).
#include "common/base/thread_pool.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/scalar_ops.h"

namespace cohort {
namespace {

template <typename From, typename To>
class CastKernel : public Kernel {
 public:
  absl::Status Run(const KernelContext& c) const override {
    const From* x = c.in(0).as<From>();
    To* y = c.out().as<To>();
    c.pool->ParallelFor(c.in(0).elements, kElementGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = scalar::Convert<From, To>(x[i]);
    });
    return absl::OkStatus();
  }
  bool in_place(size_t) const override { return sizeof(From) == sizeof(To); }
};

template <typename From>
KernelOr CreateCastFrom(const Node& node, DType to) {
  if (to == DType::kBool) return std::make_unique<CastKernel<From, bool>>();
  return ForNumeric(node, to, [](auto t) -> KernelOr {
    return std::make_unique<CastKernel<From, decltype(t)>>();
  });
}

}  // namespace

KernelOr CreateCastCpu(const Node& node, const Program& program) {
  const DType from = program.type(node.inputs[0]).dtype;
  const DType to = program.type(node.outputs[0]).dtype;
  if (from == DType::kBool) return CreateCastFrom<bool>(node, to);
  return ForNumeric(node, from, [&](auto t) { return CreateCastFrom<decltype(t)>(node, to); });
}

}  // namespace cohort
