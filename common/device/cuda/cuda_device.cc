#include "common/device/cuda/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "common/device/cuda/cuda_graph.h"
#include "common/device/cuda/cuda_memory.h"
#include "common/device/cuda/cuda_products.h"
#include "common/device/cuda/cuda_status.h"

namespace cohort {
namespace {

bool HasProducts(const GraphPlan& plan) {
  return std::ranges::any_of(
      plan.ops(), [](const GraphOp& op) { return std::holds_alternative<MatrixProduct>(op.work); });
}

class CudaDevice : public Device {
 public:
  static absl::StatusOr<std::shared_ptr<Device>> Open(int ordinal, const Gpu& gpu,
                                                      const CudaOptions& options);
  ~CudaDevice() override {
    if (copies_ != nullptr && gpu_.Select().ok()) cudaStreamDestroy(copies_);
  }

  std::string_view kind() const override { return "cuda"; }
  int ordinal() const override { return ordinal_; }
  DeviceInfo info() const override {
    cudaDeviceProp properties = {};
    if (!gpu_.Select().ok() || cudaGetDeviceProperties(&properties, gpu_.index) != cudaSuccess) {
      cudaGetLastError();
      return {};
    }
    return {.model = properties.name,
            .capability = fmt::format("{}.{}", properties.major, properties.minor),
            .memory_bytes = memory_->total_bytes(),
            .free_bytes = memory_->free_bytes()};
  }

  absl::StatusOr<DeviceMemory> Allocate(size_t bytes, std::string_view purpose) override {
    return memory_->Allocate(bytes, purpose);
  }
  absl::StatusOr<DeviceMemory> AllocatePinned(size_t bytes, std::string_view purpose) override {
    return memory_->AllocatePinned(bytes, purpose);
  }
  absl::Status CopyToDevice(void* to, const void* from, size_t bytes) override {
    return Copy(to, from, bytes);
  }
  absl::Status CopyToHost(void* to, const void* from, size_t bytes) override {
    return Copy(to, from, bytes);
  }
  absl::StatusOr<std::unique_ptr<DeviceGraph>> Instantiate(const GraphPlan& plan) override {
    DeviceMemory workspace;
    if (HasProducts(plan)) {
      COHORT_ASSIGN_OR_RETURN(workspace, Allocate(kProductWorkspaceBytes,
                                                  "the workspace of a graph's matrix products"));
    }
    return MakeCudaGraph(plan, gpu_, multiprocessors_, &products_, std::move(workspace));
  }

 private:
  CudaDevice(int ordinal, const Gpu& gpu, std::shared_ptr<CudaMemory> memory, bool allow_tf32)
      : ordinal_(ordinal), gpu_(gpu), memory_(std::move(memory)), products_(gpu, allow_tf32) {}

  absl::Status Copy(void* to, const void* from, size_t bytes) {
    if (bytes == 0) return absl::OkStatus();
    COHORT_RETURN_IF_ERROR(gpu_.Select());
    // cudaMemcpy may return before pageable memory has arrived; the wait below does not.
    COHORT_RETURN_IF_CUDA_ERROR(gpu_, cudaMemcpyAsync, to, from, bytes, cudaMemcpyDefault, copies_);
    COHORT_RETURN_IF_CUDA_ERROR(gpu_, cudaStreamSynchronize, copies_);
    return absl::OkStatus();
  }

  const int ordinal_;
  const Gpu gpu_;
  const std::shared_ptr<CudaMemory> memory_;
  CudaProducts products_;
  int multiprocessors_ = 0;        // constant after Open
  cudaStream_t copies_ = nullptr;  // the same
};

// The bytes that the device may allocate; 0: no limit.
absl::StatusOr<size_t> LimitOf(const Gpu& gpu, const CudaOptions& options) {
  if (options.memory_limit_bytes > 0) return options.memory_limit_bytes;
  if (options.allow_growth && options.devices_per_gpu == 1) return 0;
  size_t free = 0, total = 0;
  COHORT_RETURN_IF_CUDA_ERROR(gpu, cudaMemGetInfo, &free, &total);
  return total / 10 * 9 / static_cast<size_t>(options.devices_per_gpu);
}

absl::StatusOr<std::shared_ptr<Device>> CudaDevice::Open(int ordinal, const Gpu& gpu,
                                                         const CudaOptions& options) {
  COHORT_RETURN_IF_ERROR(gpu.Select());
  COHORT_ASSIGN_OR_RETURN(const size_t limit, LimitOf(gpu, options));
  COHORT_ASSIGN_OR_RETURN(std::shared_ptr<CudaMemory> memory,
                          CudaMemory::Make(gpu, limit, /*reserve=*/!options.allow_growth));
  std::shared_ptr<CudaDevice> device(
      new CudaDevice(ordinal, gpu, std::move(memory), options.allow_tf32));
  COHORT_RETURN_IF_CUDA_ERROR(gpu, cudaDeviceGetAttribute, &device->multiprocessors_,
                              cudaDevAttrMultiProcessorCount, gpu.index);
  COHORT_RETURN_IF_CUDA_ERROR(gpu, cudaStreamCreateWithFlags, &device->copies_,
                              cudaStreamNonBlocking);
  return device;
}

}  // namespace

int CudaDeviceCount() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

std::string CudaToolkitVersion() {
  return fmt::format("{}.{}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

std::string CudaPciAddress(int gpu) {
  char address[32] = {};
  if (cudaDeviceGetPCIBusId(address, sizeof(address), gpu) == cudaSuccess) return address;
  cudaGetLastError();
  return "";
}

absl::StatusOr<std::shared_ptr<Device>> OpenCudaDevice(int ordinal, const CudaOptions& options) {
  if (ordinal < 0 || options.devices_per_gpu < 1) {
    return InvalidArgument("cuda:{} with {} devices per GPU is no device", ordinal,
                           options.devices_per_gpu);
  }
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    cudaGetLastError();
    return NotFound("cuda:{}: CUDA finds no GPU here: {}; run `cohort doctor`", ordinal,
                    cudaGetErrorString(error));
  }
  const Gpu gpu = {ordinal / options.devices_per_gpu, fmt::format("cuda:{}", ordinal)};
  if (gpu.index >= count) {
    return NotFound(
        "cuda:{} does not exist: CUDA finds {} here, which make the devices cuda:0 to cuda:{}",
        ordinal, count == 1 ? "one GPU" : fmt::format("{} GPUs", count),
        count * options.devices_per_gpu - 1);
  }
  return CudaDevice::Open(ordinal, gpu, options);
}

}  // namespace cohort
