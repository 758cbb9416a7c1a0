#ifndef COHORT_COMMON_DEVICE_CUDA_NVML_H_
#define COHORT_COMMON_DEVICE_CUDA_NVML_H_

#include <cstddef>
#include <optional>
#include <string>

namespace cohort {

// What NVIDIA's management library reports. It comes with the driver and is loaded when it is first
// needed, so that this builds and runs without a driver, and without a CUDA toolkit.

struct GpuUsage {
  double utilization = 0;  // the part of the last moments in which a kernel ran: 0 to 1
  size_t used_bytes = 0, total_bytes = 0;
};

struct GpuDriver {
  std::string version;       // "580.65.06"
  std::string cuda_version;  // the newest CUDA that it runs: "13.0"
  int gpus = 0;              // that it knows; CUDA_VISIBLE_DEVICES hides none of them
};

// Returns nothing if no driver is installed or it does not answer.
std::optional<GpuDriver> FindGpuDriver();

// `pci_address`: CudaPciAddress (cuda_device.h). Returns nothing without a driver or such a GPU.
std::optional<GpuUsage> UsageOfGpu(const std::string& pci_address);

}  // namespace cohort

#endif  // COHORT_COMMON_DEVICE_CUDA_NVML_H_
