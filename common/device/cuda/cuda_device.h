#ifndef COHORT_COMMON_DEVICE_CUDA_CUDA_DEVICE_H_
#define COHORT_COMMON_DEVICE_CUDA_CUDA_DEVICE_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <memory>
#include <string>

#include "common/device/device.h"

namespace cohort {

struct CudaOptions {
  // Bytes that the device may allocate; 0: what the GPU has.
  size_t memory_limit_bytes = 0;
  // False: the device reserves its limit when it is opened. Without a limit it reserves 9/10 of its
  // share of the GPU; the rest is for CUDA itself.
  bool allow_growth = true;
  // Devices that share one GPU. If there are several, device i is on GPU i / n, and without a limit
  // each one may allocate an n-th of 9/10 of the GPU.
  int devices_per_gpu = 1;
  // Products of float32 may use tensor cores, which round the factors to 10 bits of mantissa.
  bool allow_tf32 = false;
};

// The number of GPUs that CUDA can use; 0 if there is none or no driver.
int CudaDeviceCount();

// The CUDA version that this build was made with: "13.0".
std::string CudaToolkitVersion();

// The address by which NVML knows the GPU of a device: "00000000:3B:00.0"; "" if CUDA cannot tell.
std::string CudaPciAddress(int gpu);

// Opens the device "cuda:<ordinal>". Errors: NotFound: why there is no such GPU; InvalidArgument;
// ResourceExhausted: the memory cannot be reserved; Internal: what CUDA reports.
absl::StatusOr<std::shared_ptr<Device>> OpenCudaDevice(int ordinal, const CudaOptions& options);

}  // namespace cohort

#endif  // COHORT_COMMON_DEVICE_CUDA_CUDA_DEVICE_H_
