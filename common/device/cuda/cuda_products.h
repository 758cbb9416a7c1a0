#ifndef COHORT_COMMON_DEVICE_CUDA_CUDA_PRODUCTS_H_
#define COHORT_COMMON_DEVICE_CUDA_CUDA_PRODUCTS_H_

#include <absl/status/statusor.h>

#include <memory>

#include "common/base/mutex.h"
#include "common/device/cuda/cublas.h"
#include "common/device/cuda/cuda_status.h"
#include "common/device/device.h"
#include "common/device/graph_plan.h"

namespace cohort {

// The working memory of the products of one graph: what cuBLAS recommends for Hopper GPUs.
inline constexpr size_t kProductWorkspaceBytes = size_t{32} << 20;

struct DestroyCudaGraph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
using OwnedCudaGraph = std::unique_ptr<CUgraph_st, DestroyCudaGraph>;

// The matrix products of a device, by cuBLAS. Any thread may call it.
class CudaProducts {
 public:
  // `allow_tf32`: float32 products may round their factors to 10 bits of mantissa.
  CudaProducts(const Gpu& gpu, bool allow_tf32) : gpu_(gpu), allow_tf32_(allow_tf32) {}
  ~CudaProducts();
  CudaProducts(const CudaProducts&) = delete;
  CudaProducts& operator=(const CudaProducts&) = delete;

  // Returns a graph that computes the product. m, n, k and batch are not 0. It uses the workspace,
  // so that products with the same one must not run side by side. The stream is idle. Errors:
  // Internal.
  absl::StatusOr<OwnedCudaGraph> Capture(const MatrixProduct& product, cudaStream_t stream,
                                         const DeviceMemory& workspace);

 private:
  absl::Status Prepare(cudaStream_t stream, const DeviceMemory& workspace)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Enqueue(const MatrixProduct& product) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Gpu gpu_;
  const bool allow_tf32_;
  Mutex mu_;  // cuBLAS's handle has one stream at a time
  const Cublas* cublas_ ABSL_GUARDED_BY(mu_) = nullptr;
  cublasHandle_t handle_ ABSL_GUARDED_BY(mu_) = nullptr;  // made by the first product
};

}  // namespace cohort

#endif  // COHORT_COMMON_DEVICE_CUDA_CUDA_PRODUCTS_H_
