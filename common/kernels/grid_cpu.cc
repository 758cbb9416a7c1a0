// The ops whose kernel on the CPU is the body of devices (common/kernels/grid).
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/device_kernel.h"

namespace cohort {
namespace {

class GridOnCpu : public Kernel {
 public:
  explicit GridOnCpu(std::unique_ptr<DeviceKernel> kernel) : kernel_(std::move(kernel)) {}

  absl::Status Run(const KernelContext& c) const override {
    KernelError error;
    KernelContext own = c;
    own.error = &error;
    kernel_->RunOnCpu(own);
    return error.reported != 0 ? kernel_->StatusOf(error, c) : absl::OkStatus();
  }
  size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
  bool in_place(size_t i) const override { return kernel_->in_place(i); }
  bool reads_data(size_t i) const override { return kernel_->reads_data(i); }

 private:
  const std::unique_ptr<DeviceKernel> kernel_;
};

}  // namespace

KernelOr OnCpu(absl::StatusOr<std::unique_ptr<DeviceKernel>> kernel) {
  if (!kernel.ok()) return kernel.status();
  return std::make_unique<GridOnCpu>(*std::move(kernel));
}

KernelOr CreateGridCpu(const Node& node, const Program& program) {
  return OnCpu(simulated::CreateGridKernel(node, program));
}

}  // namespace cohort
