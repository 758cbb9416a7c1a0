#include "common/base/status.h"
#include "common/kernels/device_kernel.h"

namespace cohort {

absl::StatusOr<std::unique_ptr<DeviceKernel>> CreateDeviceKernel(const Node& node,
                                                                 const Program& program,
                                                                 std::string_view kind) {
  if (kind == "simulated") return simulated::CreateGridKernel(node, program);
#ifdef COHORT_WITH_CUDA
  if (kind == "cuda") return cuda::CreateGridKernel(node, program);
#endif
  return Unimplemented("this build has no kernels for devices of kind \"{}\"", kind);
}

}  // namespace cohort
