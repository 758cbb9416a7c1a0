#include "tests/benchmarks/transport/chunk_plan.h"

#include <algorithm>

namespace cohort {

void ChunkPlan::Plan(std::span<const ChunkItem> items, size_t target_bytes) {
  parts_.clear();
  ends_.clear();
  uint64_t room = target_bytes;
  bool empty = true;  // the message under way has no unit yet
  for (uint32_t i = 0; i < items.size(); ++i) {
    const ChunkItem& item = items[i];
    uint64_t begin = 0;
    do {
      const uint64_t left = item.units - begin;
      uint64_t fits = item.bytes_per_unit == 0 ? left : room / item.bytes_per_unit;
      if (fits == 0 && left > 0 && !empty) {
        ends_.push_back(parts_.size());
        room = target_bytes;
        empty = true;
        continue;
      }
      const uint64_t count = std::min(left, std::max<uint64_t>(fits, 1));
      parts_.push_back({i, begin, count});
      begin += count;
      room -= std::min<uint64_t>(room, count * item.bytes_per_unit);
      if (count > 0) empty = false;
    } while (begin < item.units);
  }
  ends_.push_back(parts_.size());
}

std::span<const ChunkPart> ChunkPlan::message(size_t index) const {
  const size_t begin = index == 0 ? 0 : ends_[index - 1];
  return std::span<const ChunkPart>(parts_).subspan(begin, ends_[index] - begin);
}

}  // namespace cohort
