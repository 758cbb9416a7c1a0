// concat: a, b, ... -> put together along `axis`.
#include <cstring>

#include "common/kernels/cpu_kernels.h"

namespace cohort {
namespace {

class ConcatKernel : public Kernel {
 public:
  ConcatKernel(size_t inputs, int axis) : inputs_(inputs), axis_(axis) {}

  absl::Status Run(const KernelContext& c) const override {
    const ValueView& out = c.out();
    if (out.elements == 0) return absl::OkStatus();
    int64_t outer = 1;
    for (int i = 0; i < axis_; ++i) outer *= out.dims[i];
    const size_t stride = static_cast<size_t>(out.elements / outer) * SizeOf(out.dtype);
    uint8_t* to = out.as<uint8_t>();
    for (size_t i = 0; i < inputs_; ++i) {
      const size_t bytes = static_cast<size_t>(c.in(i).elements / outer) * SizeOf(out.dtype);
      const uint8_t* from = c.in(i).as<uint8_t>();
      for (size_t row = 0; row < static_cast<size_t>(outer); ++row) {
        std::memcpy(to + row * stride, from + row * bytes, bytes);
      }
      to += bytes;
    }
    return absl::OkStatus();
  }

 private:
  const size_t inputs_;
  const int axis_;
};

}  // namespace

KernelOr CreateConcatCpu(const Node& node, const Program& program) {
  return std::make_unique<ConcatKernel>(node.inputs.size(),
                                        static_cast<int>(IntAttr(node, "axis")));
}

}  // namespace cohort
