#include "common/exchange/push_areas.h"

#include <algorithm>

#include "common/base/status.h"

namespace cohort {

BufferRef PushAreas::Allocate(size_t bytes) {
  DropUnused();
  if (bytes < kLeastBytes) return {};
  BufferRef area = SharedMemory::Allocate(bytes);
  if (area) areas_.push_back(area);
  return area;
}

void PushAreas::DropUnused() {
  std::erase_if(areas_, [](const BufferRef& area) { return area.unique(); });
}

const SharedMemory* PushAreas::Find(const uint8_t* data) const {
  for (const BufferRef& area : areas_) {
    const SharedMemory* const memory = SharedMemory::Of(*area.get());
    if (memory->is_shared() && memory->Contains(data)) return memory;
  }
  return nullptr;
}

void PushAreas::NoteSent(uint64_t sequence, const SharedMemory* memory) {
  const bool noted = std::ranges::any_of(unanswered_, [&](const Unanswered& sent) {
    return sent.sequence == sequence && sent.memory == memory;
  });
  if (!noted) unanswered_.push_back({sequence, memory});
}

void PushAreas::NoteAnswered(uint64_t sequence) {
  std::erase_if(unanswered_,
                [sequence](const Unanswered& sent) { return sent.sequence == sequence; });
}

size_t PushAreas::EndExchange() {
  size_t renewed = 0;
  if (unanswered_.empty()) return renewed;
  for (const BufferRef& area : areas_) {
    SharedMemory* const memory = SharedMemory::Of(*area.get());
    const bool named = std::ranges::any_of(
        unanswered_, [memory](const Unanswered& sent) { return sent.memory == memory; });
    if (!named) continue;
    memory->Renew();
    ++renewed;
  }
  unanswered_.clear();
  return renewed;
}

}  // namespace cohort
