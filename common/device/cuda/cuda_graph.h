#ifndef COHORT_COMMON_DEVICE_CUDA_CUDA_GRAPH_H_
#define COHORT_COMMON_DEVICE_CUDA_CUDA_GRAPH_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>

#include "common/device/cuda/cuda_products.h"
#include "common/device/cuda/cuda_status.h"
#include "common/device/device.h"

namespace cohort {

inline constexpr int kCudaBlockThreads = 256;  // as grid.h's kernels are compiled for

// Returns how many blocks of 256 threads a launch gets: enough for its items, and at most as many
// as keep the GPU full, since kernels loop over what remains. At least 1.
unsigned CudaBlocks(GridShape shape, int64_t items, int multiprocessors);

// Makes a CUDA graph with a node for each op of the plan and an edge for each element of `after`.
// Further edges chain the products one after another, because they share the workspace, which is
// empty if the plan has none. The graph keeps the workspace, but not the GPU's other objects.
// Errors: Internal, naming the op.
absl::StatusOr<std::unique_ptr<DeviceGraph>> MakeCudaGraph(const GraphPlan& plan, const Gpu& gpu,
                                                           int multiprocessors,
                                                           CudaProducts* products,
                                                           DeviceMemory workspace);

}  // namespace cohort

#endif  // COHORT_COMMON_DEVICE_CUDA_CUDA_GRAPH_H_
