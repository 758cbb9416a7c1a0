// bag_grad: (grad[n, d], index[n, length], rows for its shape, weights[n, length] or none) ->
// [U, d]: row u is the sum of the rows of grad whose list names u, added in order of position.
#include <algorithm>

#include "common/kernels/cpu_kernels.h"

namespace cohort {
namespace {

template <typename T>
class BagGradKernel : public Kernel {
 public:
  explicit BagGradKernel(bool is_weighted) : is_weighted_(is_weighted) {}

  absl::Status Run(const KernelContext& c) const override {
    const T* grad = c.in(0).as<T>();
    const int64_t* index = c.in(1).as<int64_t>();
    const T* weights = is_weighted_ ? c.in(3).as<T>() : nullptr;
    const uint64_t count = static_cast<uint64_t>(c.out().dims[0]);
    const int64_t bags = c.in(1).dims[0], length = c.in(1).dims[1], width = c.out().dims[1];
    T* __restrict y = c.out().as<T>();
    std::fill_n(y, c.out().elements, T{0});
    for (int64_t i = 0; i < bags * length; ++i) {
      if (index[i] == -1) continue;
      if (static_cast<uint64_t>(index[i]) >= count) {
        return InvalidArgument("index {} at position {} does not lie in [0, {})", index[i], i,
                               count);
      }
      const T* of_bag = grad + i / length * width;
      T* __restrict row = y + index[i] * width;
      const T weight = weights == nullptr ? T{1} : weights[i];
      for (int64_t j = 0; j < width; ++j) row[j] += weight * of_bag[j];
    }
    return absl::OkStatus();
  }
  bool reads_data(size_t i) const override { return i != 2; }

 private:
  const bool is_weighted_;
};

}  // namespace

KernelOr CreateBagGradCpu(const Node& node, const Program& program) {
  return ForFloating(node, program.type(node.inputs[0]).dtype, [&](auto t) -> KernelOr {
    return std::make_unique<BagGradKernel<decltype(t)>>(node.inputs.size() > 3);
  });
}

}  // namespace cohort
