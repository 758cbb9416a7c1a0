#include "common/exec/memory_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace cohort {
namespace {

bool LiveTogether(const MemoryBlock& a, const MemoryBlock& b) {
  return a.first <= b.last && b.first <= a.last;
}

}  // namespace

MemoryPlan PlanMemory(std::span<const MemoryBlock> blocks) {
  MemoryPlan plan;
  plan.offsets.resize(blocks.size());
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  std::vector<size_t> placed;  // in order of offset
  for (size_t block : order) {
    const size_t bytes = AlignUp(blocks[block].bytes);
    size_t best = 0, best_gap = std::numeric_limits<size_t>::max(), end = 0;
    for (size_t other : placed) {
      if (!LiveTogether(blocks[block], blocks[other])) continue;
      const size_t begin = plan.offsets[other];
      if (begin >= end + bytes && begin - end < best_gap) {
        best = end;
        best_gap = begin - end;
      }
      end = std::max(end, begin + AlignUp(blocks[other].bytes));
    }
    const size_t offset = best_gap == std::numeric_limits<size_t>::max() ? end : best;
    plan.offsets[block] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                   [&](size_t o, size_t p) { return o < plan.offsets[p]; }),
                  block);
  }
  return plan;
}

}  // namespace cohort
