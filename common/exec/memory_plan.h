#ifndef COHORT_COMMON_EXEC_MEMORY_PLAN_H_
#define COHORT_COMMON_EXEC_MEMORY_PLAN_H_

#include <cstddef>
#include <span>
#include <vector>

namespace cohort {

// Returns the next multiple of a cache line, 64 bytes: the alignment of all memory of kernels.
constexpr size_t AlignUp(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Memory that is needed from step `first` to step `last` of a schedule, both included.
struct MemoryBlock {
  size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct MemoryPlan {
  std::vector<size_t> offsets;  // by block, aligned to 64
  size_t bytes = 0;             // the whole arena
};

// Places blocks in one arena so that no two share a byte at the same step: the largest first, each
// in the smallest gap that is free from its first to its last step.
MemoryPlan PlanMemory(std::span<const MemoryBlock> blocks);

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_MEMORY_PLAN_H_
