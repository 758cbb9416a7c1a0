// bag: rows[U, d], index[n, length], weights[n, length] or none -> [n, d]: the sum of the rows of
// each list, added in order of position. An index of -1 names no row.
#include <algorithm>

#include "common/kernels/cpu_kernels.h"

namespace cohort {
namespace {

template <typename T>
class BagKernel : public Kernel {
 public:
  explicit BagKernel(bool is_weighted) : is_weighted_(is_weighted) {}

  absl::Status Run(const KernelContext& c) const override {
    const T* rows = c.in(0).as<T>();
    const int64_t* index = c.in(1).as<int64_t>();
    const T* weights = is_weighted_ ? c.in(2).as<T>() : nullptr;
    const uint64_t count = static_cast<uint64_t>(c.in(0).dims[0]);
    const int64_t bags = c.in(1).dims[0], length = c.in(1).dims[1], width = c.in(0).dims[1];
    T* __restrict y = c.out().as<T>();
    std::fill_n(y, c.out().elements, T{0});
    for (int64_t i = 0; i < bags * length; ++i) {
      if (index[i] == -1) continue;
      if (static_cast<uint64_t>(index[i]) >= count) {
        return InvalidArgument("index {} at position {} does not lie in [0, {})", index[i], i,
                               count);
      }
      const T* row = rows + index[i] * width;
      T* __restrict sum = y + i / length * width;
      const T weight = weights == nullptr ? T{1} : weights[i];
      for (int64_t j = 0; j < width; ++j) sum[j] += weight * row[j];
    }
    return absl::OkStatus();
  }

 private:
  const bool is_weighted_;
};

}  // namespace

KernelOr CreateBagCpu(const Node& node, const Program& program) {
  return ForFloating(node, program.type(node.inputs[0]).dtype, [&](auto t) -> KernelOr {
    return std::make_unique<BagKernel<decltype(t)>>(node.inputs.size() > 2);
  });
}

}  // namespace cohort
