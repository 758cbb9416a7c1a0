#ifndef COHORT_COMMON_DEVICE_CUDA_CUBLAS_H_
#define COHORT_COMMON_DEVICE_CUDA_CUBLAS_H_

#include <absl/status/statusor.h>
#include <cublas_v2.h>

namespace cohort {

// The functions of cuBLAS that we call. The library, half a gigabyte, is loaded when it is first
// needed: programs start without it, on machines without CUDA too.
struct Cublas {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasSetMathMode) set_math_mode = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  decltype(&cublasGemmEx_64) gemm = nullptr;
  decltype(&cublasGemmStridedBatchedEx_64) batched_gemm = nullptr;
};

// Loads it once per process. Errors: Unimplemented: why it cannot be loaded, and what to install.
absl::StatusOr<const Cublas*> LoadCublas();

}  // namespace cohort

#endif  // COHORT_COMMON_DEVICE_CUDA_CUBLAS_H_
