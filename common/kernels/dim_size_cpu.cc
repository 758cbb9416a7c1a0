// dim_size: x -> the run-time size of an axis, as a float scalar.
#include "common/kernels/cpu_kernels.h"

namespace cohort {
namespace {

template <typename T>
class DimSizeKernel : public Kernel {
 public:
  explicit DimSizeKernel(int64_t axis) : axis_(axis) {}
  absl::Status Run(const KernelContext& c) const override {
    *c.out().as<T>() = static_cast<T>(c.in(0).dims[axis_]);
    return absl::OkStatus();
  }
  bool reads_data(size_t) const override { return false; }

 private:
  const int64_t axis_;
};

}  // namespace

KernelOr CreateDimSizeCpu(const Node& node, const Program& program) {
  return ForFloating(node, program.type(node.outputs[0]).dtype, [&](auto t) -> KernelOr {
    return std::make_unique<DimSizeKernel<decltype(t)>>(IntAttr(node, "axis"));
  });
}

}  // namespace cohort
