#ifndef COHORT_COMMON_KERNELS_DEVICE_KERNEL_H_
#define COHORT_COMMON_KERNELS_DEVICE_KERNEL_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "common/device/graph_plan.h"
#include "common/kernels/kernel.h"

namespace cohort {

// Where a kernel reports an input value that it cannot work with. It lies in the memory of the
// device, and is zero before each run; of several reports any one may win.
struct KernelError {
  int32_t reported = 0;
  int32_t padding = 0;
  int64_t position = 0;  // in the input
  int64_t value = 0;
};

// One node, compiled for a device that runs graphs. The graph is made once and stays valid for
// every batch: its ops are launched for full capacity and stop at the sizes that *bodies* hold,
// structs in the memory of the device. The host writes them before a run, where sizes or random
// keys changed.
class DeviceKernel : public KernelTraits {
 public:
  // Returns the bytes that all bodies need together; a multiple of 16.
  virtual size_t body_bytes() const = 0;
  // Writes the bodies for the current sizes of a run. The context has memory of the device.
  virtual void WriteBodies(const KernelContext& context, uint8_t* to) const = 0;
  // Adds the ops of this node, whose bodies will lie at this address of the device.
  virtual void AddTo(GraphPlan* plan, const KernelContext& context,
                     const uint8_t* bodies) const = 0;

  // Runs the node now, on the threads of context.pool. For kernels of the kind "simulated" whose
  // ops have the column `cpu` Grid in ops.def, or pass a dtype on to it.
  virtual void RunOnCpu(const KernelContext& context) const {}

  // Returns true if the kernel writes after the current elements of input i, up to its capacity.
  virtual bool writes_tail(size_t i) const { return false; }
  // Returns true if bodies hold the key of the step.
  virtual bool is_random() const { return false; }
  // Returns true if it may report an error.
  virtual bool may_fail() const { return false; }
  virtual absl::Status StatusOf(const KernelError& error, const KernelContext& context) const {
    return absl::OkStatus();
  }
};

// The kernels of common/kernels/grid, compiled for each kind of device.
namespace simulated {
absl::StatusOr<std::unique_ptr<DeviceKernel>> CreateGridKernel(const Node&, const Program&);
absl::StatusOr<std::unique_ptr<DeviceKernel>> CreateMatMulLoops(const Node&, const Program&);
absl::StatusOr<std::unique_ptr<DeviceKernel>> CreateConvolutionLoops(const Node&, const Program&);
}  // namespace simulated
namespace cuda {
absl::StatusOr<std::unique_ptr<DeviceKernel>> CreateGridKernel(const Node&, const Program&);
}

// Chooses the kernel of a node on devices of a kind that runs graphs. Errors: Unimplemented if this
// build has none for the op, the dtypes or the kind; the node then runs on the CPU.
absl::StatusOr<std::unique_ptr<DeviceKernel>> CreateDeviceKernel(const Node& node,
                                                                 const Program& program,
                                                                 std::string_view kind);

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_DEVICE_KERNEL_H_
