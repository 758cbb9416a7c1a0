#include "common/device/cuda/cuda_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace cohort {

absl::StatusOr<std::shared_ptr<CudaMemory>> CudaMemory::Make(const Gpu& gpu, size_t limit,
                                                             bool reserve) {
  std::shared_ptr<CudaMemory> memory(new CudaMemory(gpu, limit));
  if (reserve) COHORT_RETURN_IF_ERROR(memory->Reserve());
  return memory;
}

CudaMemory::~CudaMemory() {
  if (reserved_ != nullptr && gpu_.Select().ok()) cudaFree(reserved_);
}

absl::Status CudaMemory::Reserve() {
  COHORT_RETURN_IF_ERROR(gpu_.Select());
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, limit_);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    const GpuMemory gpu = Ask();
    return ResourceExhausted(
        "{} cannot reserve its limit of {} bytes: the GPU has {} of {} bytes free; pass a smaller "
        "--gpu_memory_limit_mb, or --gpu_allow_growth",
        gpu_.Name(), limit_, gpu.free, gpu.total);
  }
  COHORT_RETURN_IF_ERROR(CudaStatus(gpu_, "cudaMalloc", error));
  reserved_ = static_cast<char*>(memory);
  MutexLock lock(&mu_);
  blocks_.emplace(limit_);
  return absl::OkStatus();
}

absl::StatusOr<DeviceMemory> CudaMemory::Allocate(size_t bytes, std::string_view purpose) {
  const auto lacks = [&](const std::string& free) {
    return ResourceExhausted("{} needs {} bytes of the memory of {}, which has {}", purpose, bytes,
                             gpu_.Name(), free);
  };
  const size_t rounded = BlockList::Rounded(bytes);
  MutexLock lock(&mu_);
  void* memory = nullptr;
  if (blocks_.has_value()) {
    const std::optional<size_t> offset = blocks_->Take(rounded);
    if (!offset.has_value()) {
      return lacks(fmt::format("{} of its limit of {} free, at most {} of them together",
                               limit_ - used_, limit_, blocks_->largest_free()));
    }
    memory = reserved_ + *offset;
  } else {
    if (limit_ > 0 && rounded > limit_ - used_) {
      return lacks(fmt::format("{} of its limit of {} free", limit_ - used_, limit_));
    }
    COHORT_RETURN_IF_ERROR(gpu_.Select());
    const cudaError_t error = cudaMalloc(&memory, rounded);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      const GpuMemory gpu = Ask();
      return lacks(fmt::format("{} of {} free", gpu.free, gpu.total));
    }
    COHORT_RETURN_IF_ERROR(CudaStatus(gpu_, "cudaMalloc", error));
  }
  used_ += rounded;
  return DeviceMemory(memory, bytes, [self = shared_from_this(), rounded](void* given) {
    self->Give(given, rounded);
  });
}

void CudaMemory::Give(void* memory, size_t bytes) {
  MutexLock lock(&mu_);
  used_ -= bytes;
  if (blocks_.has_value()) {
    blocks_->Give(static_cast<size_t>(static_cast<char*>(memory) - reserved_));
  } else if (gpu_.Select().ok()) {
    cudaFree(memory);
  }
}

absl::StatusOr<DeviceMemory> CudaMemory::AllocatePinned(size_t bytes, std::string_view purpose) {
  COHORT_RETURN_IF_ERROR(gpu_.Select());
  void* memory = nullptr;
  // Portable: memory that the copies of every GPU may use.
  const cudaError_t error =
      cudaHostAlloc(&memory, BlockList::Rounded(bytes), cudaHostAllocPortable);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return ResourceExhausted("{} needs {} bytes of pinned host memory for {}, which are not free",
                             purpose, bytes, gpu_.Name());
  }
  COHORT_RETURN_IF_ERROR(CudaStatus(gpu_, "cudaHostAlloc", error));
  return DeviceMemory(memory, bytes, [](void* given) { cudaFreeHost(given); });
}

size_t CudaMemory::total_bytes() const { return limit_ > 0 ? limit_ : Ask().total; }

size_t CudaMemory::free_bytes() const {
  MutexLock lock(&mu_);
  if (blocks_.has_value()) return limit_ - used_;
  const size_t on_gpu = Ask().free;
  return limit_ > 0 ? std::min(limit_ - used_, on_gpu) : on_gpu;
}

CudaMemory::GpuMemory CudaMemory::Ask() const {
  GpuMemory memory;
  if (!gpu_.Select().ok() || cudaMemGetInfo(&memory.free, &memory.total) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  return memory;
}

}  // namespace cohort
