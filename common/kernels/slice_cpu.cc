// slice: x -> [begin, begin + size) of `axis`.
#include <cstring>

#include "common/kernels/cpu_kernels.h"

namespace cohort {
namespace {

class SliceKernel : public Kernel {
 public:
  SliceKernel(int axis, int64_t begin, int64_t size) : axis_(axis), begin_(begin), size_(size) {}

  absl::Status Run(const KernelContext& c) const override {
    const ValueView& in = c.in(0);
    int64_t outer = 1;
    size_t inner = SizeOf(in.dtype);
    for (int i = 0; i < axis_; ++i) outer *= in.dims[i];
    for (int i = axis_ + 1; i < in.rank; ++i) inner *= static_cast<size_t>(in.dims[i]);
    const size_t stride = static_cast<size_t>(in.dims[axis_]) * inner;
    const size_t bytes = static_cast<size_t>(size_) * inner;
    const uint8_t* from = in.as<uint8_t>() + static_cast<size_t>(begin_) * inner;
    uint8_t* to = c.out().as<uint8_t>();
    for (int64_t row = 0; row < outer; ++row, from += stride, to += bytes) {
      std::memcpy(to, from, bytes);
    }
    return absl::OkStatus();
  }

 private:
  const int axis_;
  const int64_t begin_;
  const int64_t size_;
};

}  // namespace

KernelOr CreateSliceCpu(const Node& node, const Program& program) {
  return std::make_unique<SliceKernel>(static_cast<int>(IntAttr(node, "axis")),
                                       IntAttr(node, "begin"), IntAttr(node, "size"));
}

}  // namespace cohort
