#include "common/device/cuda/cuda_status.h"

#include <fmt/format.h>

namespace cohort {
namespace {

// After these errors all calls of the process fail: its context on the GPU is lost.
bool LosesTheContext(cudaError_t error) {
  switch (error) {
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorMisalignedAddress:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string Gpu::Name() const {
  if (device == fmt::format("cuda:{}", index)) return device;
  return fmt::format("{} (GPU {})", device, index);
}

absl::Status Gpu::Select() const {
  COHORT_RETURN_IF_CUDA_ERROR(*this, cudaSetDevice, index);
  return absl::OkStatus();
}

absl::Status CudaStatus(const Gpu& gpu, std::string_view call, cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();
  const std::string_view then =
      LosesTheContext(error) ? "; this process can no longer use the GPU and must be restarted"
                             : "";
  return Internal("{} on {}: {} ({}){}", call, gpu.Name(), cudaGetErrorString(error),
                  cudaGetErrorName(error), then);
}

absl::Status CudaStatus(const Gpu& gpu, std::string_view call, cublasStatus_t error) {
  if (error == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  // cuBLAS hides what CUDA reported.
  const cudaError_t cause = cudaGetLastError();
  const std::string why =
      cause == cudaSuccess ? "" : fmt::format(", after: {}", cudaGetErrorString(cause));
  const std::string_view then =
      LosesTheContext(cause) ? "; this process can no longer use the GPU and must be restarted"
                             : "";
  return Internal("{} on {}: status {} of cuBLAS{}{}", call, gpu.Name(), static_cast<int>(error),
                  why, then);
}

}  // namespace cohort
