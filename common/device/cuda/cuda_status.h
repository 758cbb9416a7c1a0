#ifndef COHORT_COMMON_DEVICE_CUDA_CUDA_STATUS_H_
#define COHORT_COMMON_DEVICE_CUDA_CUDA_STATUS_H_

#include <absl/status/status.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace cohort {

// A GPU as one Device uses it. Several devices may share a GPU.
struct Gpu {
  int index = 0;       // CUDA's number of it in this process
  std::string device;  // "cuda:0"

  // "cuda:3 (GPU 1)", or "cuda:1" if the numbers agree.
  std::string Name() const;
  // Makes it the GPU of the calling thread's next calls.
  absl::Status Select() const;
};

// Returns Internal "cudaGraphLaunch on cuda:0: out of memory (cudaErrorMemoryAllocation)" unless
// the call succeeded. If the error makes the GPU unusable for this process, the message reports
// that. Otherwise the thread's last error is cleared, so that no later call returns it.
absl::Status CudaStatus(const Gpu& gpu, std::string_view call, cudaError_t error);
absl::Status CudaStatus(const Gpu& gpu, std::string_view call, cublasStatus_t error);

}  // namespace cohort

// Calls a function of CUDA or cuBLAS with these arguments and returns from the caller if it fails.
#define COHORT_RETURN_IF_CUDA_ERROR(gpu, function, ...) \
  COHORT_RETURN_IF_ERROR(::cohort::CudaStatus(gpu, #function, function(__VA_ARGS__)))

#endif  // COHORT_COMMON_DEVICE_CUDA_CUDA_STATUS_H_
