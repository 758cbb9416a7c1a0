#ifndef COHORT_COMMON_DEVICE_CUDA_CUDA_MEMORY_H_
#define COHORT_COMMON_DEVICE_CUDA_CUDA_MEMORY_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "common/base/mutex.h"
#include "common/device/block_list.h"
#include "common/device/cuda/cuda_status.h"
#include "common/device/device.h"

namespace cohort {

// The memory of one Device on a GPU. It is either taken from CUDA block by block and counted
// against a limit, or reserved at once and divided here. Any thread may call it. Blocks keep it
// alive.
class CudaMemory : public std::enable_shared_from_this<CudaMemory> {
 public:
  // `limit`: bytes that may be allocated; 0: what the GPU has. `reserve`: take the limit, which is
  // not 0, at once. Errors: ResourceExhausted if the GPU does not have that much free.
  static absl::StatusOr<std::shared_ptr<CudaMemory>> Make(const Gpu& gpu, size_t limit,
                                                          bool reserve);
  ~CudaMemory();

  // Errors: ResourceExhausted: how many bytes `purpose` asked for, and how many are free where.
  absl::StatusOr<DeviceMemory> Allocate(size_t bytes, std::string_view purpose);
  absl::StatusOr<DeviceMemory> AllocatePinned(size_t bytes, std::string_view purpose);

  size_t total_bytes() const;  // the limit, or what the GPU has
  size_t free_bytes() const;   // the smaller of what the limit leaves and what the GPU has

 private:
  // What the GPU reports. Zero if it cannot be asked.
  struct GpuMemory {
    size_t free = 0, total = 0;
  };

  CudaMemory(const Gpu& gpu, size_t limit) : gpu_(gpu), limit_(limit) {}
  absl::Status Reserve();
  void Give(void* memory, size_t bytes);
  GpuMemory Ask() const;

  const Gpu gpu_;
  const size_t limit_;
  char* reserved_ = nullptr;  // constant after Make; null: nothing is reserved

  mutable Mutex mu_;
  size_t used_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<BlockList> blocks_ ABSL_GUARDED_BY(mu_);  // they divide what is reserved
};

}  // namespace cohort

#endif  // COHORT_COMMON_DEVICE_CUDA_CUDA_MEMORY_H_
