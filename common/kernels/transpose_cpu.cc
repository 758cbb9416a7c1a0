// transpose: x -> axis i of the result is axis perm[i] of x.
#include <array>

#include "common/kernels/broadcast.h"
#include "common/kernels/cpu_kernels.h"

namespace cohort {
namespace {

// T only has the size of the elements.
template <typename T>
class TransposeKernel : public Kernel {
 public:
  TransposeKernel(std::span<const int64_t> perm) : rank_(perm.size()) {
    for (size_t i = 0; i < rank_; ++i) perm_[i] = static_cast<size_t>(perm[i]);
  }

  absl::Status Run(const KernelContext& c) const override {
    const ValueView& in = c.in(0);
    const ValueView& out = c.out();
    const T* x = in.as<T>();
    T* y = out.as<T>();
    if (rank_ < 2 || out.elements == 0) {
      std::copy_n(x, out.elements, y);
      return absl::OkStatus();
    }
    std::array<int64_t, kMaxRank> in_strides{}, strides{}, index{};
    int64_t stride = 1;
    for (size_t i = rank_; i-- > 0; stride *= in.dims[i]) in_strides[i] = stride;
    for (size_t i = 0; i < rank_; ++i) strides[i] = in_strides[perm_[i]];
    const size_t last = rank_ - 1;
    int64_t from = 0;
    for (int64_t to = 0; to < out.elements; to += out.dims[last]) {
      for (int64_t i = 0; i < out.dims[last]; ++i) y[to + i] = x[from + i * strides[last]];
      for (size_t axis = last; axis-- > 0;) {
        from += strides[axis];
        if (++index[axis] < out.dims[axis]) break;
        from -= strides[axis] * out.dims[axis];
        index[axis] = 0;
      }
    }
    return absl::OkStatus();
  }

 private:
  const size_t rank_;
  std::array<size_t, kMaxRank> perm_{};
};

}  // namespace

KernelOr CreateTransposeCpu(const Node& node, const Program& program) {
  const auto perm = IntsAttr(node, "perm");
  const DType dtype = program.type(node.inputs[0]).dtype;
  switch (SizeOf(dtype)) {
    case 1:
      return std::make_unique<TransposeKernel<uint8_t>>(perm);
    case 4:
      return std::make_unique<TransposeKernel<uint32_t>>(perm);
    case 8:
      return std::make_unique<TransposeKernel<uint64_t>>(perm);
  }
  return NoKernelFor(node, dtype);
}

}  // namespace cohort
