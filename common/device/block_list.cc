#include "common/device/block_list.h"

#include <algorithm>
#include <iterator>

namespace cohort {

BlockList::BlockList(size_t bytes) {
  const size_t usable = bytes / kAlignment * kAlignment;
  if (usable > 0) free_.emplace(0, usable);
}

std::optional<size_t> BlockList::Take(size_t bytes) {
  const size_t wanted = Rounded(bytes);
  const auto found =
      std::ranges::find_if(free_, [&](const auto& block) { return block.second >= wanted; });
  if (found == free_.end()) return std::nullopt;
  const auto [offset, size] = *found;
  free_.erase(found);
  if (size > wanted) free_.emplace(offset + wanted, size - wanted);
  taken_.emplace(offset, wanted);
  return offset;
}

void BlockList::Give(size_t offset) {
  const auto taken = taken_.find(offset);
  if (taken == taken_.end()) return;
  auto block = free_.emplace(offset, taken->second).first;
  taken_.erase(taken);
  const auto next = std::next(block);
  if (next != free_.end() && block->first + block->second == next->first) {
    block->second += next->second;
    free_.erase(next);
  }
  if (block == free_.begin()) return;
  const auto previous = std::prev(block);
  if (previous->first + previous->second == block->first) {
    previous->second += block->second;
    free_.erase(block);
  }
}

size_t BlockList::largest_free() const {
  size_t largest = 0;
  for (const auto& [offset, bytes] : free_) largest = std::max(largest, bytes);
  return largest;
}

}  // namespace cohort
