#include "common/device/cuda/cuda_products.h"

#include <utility>

namespace cohort {

CudaProducts::~CudaProducts() {
  if (handle_ != nullptr && gpu_.Select().ok()) cublas_->destroy(handle_);
}

absl::Status CudaProducts::Prepare(cudaStream_t stream, const DeviceMemory& workspace) {
  if (handle_ == nullptr) {
    COHORT_ASSIGN_OR_RETURN(cublas_, LoadCublas());
    COHORT_RETURN_IF_CUDA_ERROR(gpu_, cublas_->create, &handle_);
    COHORT_RETURN_IF_CUDA_ERROR(gpu_, cublas_->set_math_mode, handle_, CUBLAS_DEFAULT_MATH);
  }
  // In this order: a new stream takes the workspace away.
  COHORT_RETURN_IF_CUDA_ERROR(gpu_, cublas_->set_stream, handle_, stream);
  COHORT_RETURN_IF_CUDA_ERROR(gpu_, cublas_->set_workspace, handle_, workspace.data(),
                              workspace.bytes());
  return absl::OkStatus();
}

absl::StatusOr<OwnedCudaGraph> CudaProducts::Capture(const MatrixProduct& product,
                                                     cudaStream_t stream,
                                                     const DeviceMemory& workspace) {
  COHORT_RETURN_IF_ERROR(gpu_.Select());
  MutexLock lock(&mu_);
  COHORT_RETURN_IF_ERROR(Prepare(stream, workspace));
  // Relaxed: other threads may allocate, and cuBLAS may load a kernel.
  COHORT_RETURN_IF_CUDA_ERROR(gpu_, cudaStreamBeginCapture, stream, cudaStreamCaptureModeRelaxed);
  const absl::Status enqueued = Enqueue(product);
  cudaGraph_t graph = nullptr;  // ending the capture is needed after errors, too
  const absl::Status ended =
      CudaStatus(gpu_, "cudaStreamEndCapture", cudaStreamEndCapture(stream, &graph));
  OwnedCudaGraph owned(graph);
  COHORT_RETURN_IF_ERROR(enqueued);
  COHORT_RETURN_IF_ERROR(ended);
  return owned;
}

// cuBLAS stores matrices column by column, where a matrix of ours is its own transpose. So it
// computes C^T = B^T A^T: c[m,n] is an n x m matrix there, and the first factor is b.
absl::Status CudaProducts::Enqueue(const MatrixProduct& p) {
  const bool is_double = p.dtype == DType::kFloat64;
  if (!is_double && p.dtype != DType::kFloat32) {
    return Internal("{} has no matrix product of {}", gpu_.Name(), DTypeName(p.dtype));
  }
  const bool is_rounded = p.operands != Precision::kFloat32;
  const cudaDataType type = is_double ? CUDA_R_64F : CUDA_R_32F;
  const cudaDataType operand = p.operands == Precision::kBfloat16  ? CUDA_R_16BF
                               : p.operands == Precision::kFloat16 ? CUDA_R_16F
                                                                   : type;
  const cublasComputeType_t compute = is_double                    ? CUBLAS_COMPUTE_64F
                                      : allow_tf32_ && !is_rounded ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                   : CUBLAS_COMPUTE_32F;
  const double double_one = 1, double_zero = 0;
  const float float_one = 1, float_zero = 0;
  const void* const one = is_double ? static_cast<const void*>(&double_one) : &float_one;
  const void* const zero = is_double ? static_cast<const void*>(&double_zero) : &float_zero;
  const cublasOperation_t b = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t a = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int64_t b_row = p.transpose_b ? p.k : p.n, a_row = p.transpose_a ? p.m : p.k;
  if (p.batch == 1) {
    COHORT_RETURN_IF_CUDA_ERROR(gpu_, cublas_->gemm, handle_, b, a, p.n, p.m, p.k, one, p.b,
                                operand, b_row, p.a, operand, a_row, zero, p.c, type, p.n, compute,
                                CUBLAS_GEMM_DEFAULT);
    return absl::OkStatus();
  }
  COHORT_RETURN_IF_CUDA_ERROR(gpu_, cublas_->batched_gemm, handle_, b, a, p.n, p.m, p.k, one, p.b,
                              operand, b_row, p.k * p.n, p.a, operand, a_row, p.m * p.k, zero, p.c,
                              type, p.n, p.m * p.n, p.batch, compute, CUBLAS_GEMM_DEFAULT);
  return absl::OkStatus();
}

}  // namespace cohort
