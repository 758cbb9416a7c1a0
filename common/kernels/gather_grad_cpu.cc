// gather_grad: (grad, index, rows for its shape) -> [U, ...]: row u is the sum of the rows of grad
// whose index is u, added in order of position.
#include <algorithm>

#include "common/kernels/cpu_kernels.h"

namespace cohort {
namespace {

template <typename T>
class GatherGradKernel : public Kernel {
 public:
  absl::Status Run(const KernelContext& c) const override {
    const T* __restrict grad = c.in(0).as<T>();
    const int64_t* index = c.in(1).as<int64_t>();
    const int64_t n = c.in(1).elements;
    T* __restrict y = c.out().as<T>();
    std::fill_n(y, c.out().elements, T{0});
    int64_t row_elements = 1;
    for (int i = 1; i < c.out().rank; ++i) row_elements *= c.out().dims[i];
    const uint64_t count = static_cast<uint64_t>(c.out().dims[0]);
    for (int64_t i = 0; i < n; ++i, grad += row_elements) {
      if (static_cast<uint64_t>(index[i]) >= count) {
        return InvalidArgument("index {} at position {} does not lie in [0, {})", index[i], i,
                               count);
      }
      T* __restrict row = y + index[i] * row_elements;
      for (int64_t j = 0; j < row_elements; ++j) row[j] += grad[j];
    }
    return absl::OkStatus();
  }
  bool reads_data(size_t i) const override { return i != 2; }
};

}  // namespace

KernelOr CreateGatherGradCpu(const Node& node, const Program& program) {
  const DType index = program.type(node.inputs[1]).dtype;
  if (index != DType::kInt64) return NoKernelFor(node, index);
  return ForFloating(node, program.type(node.inputs[0]).dtype, [](auto t) -> KernelOr {
    return std::make_unique<GatherGradKernel<decltype(t)>>();
  });
}

}  // namespace cohort
