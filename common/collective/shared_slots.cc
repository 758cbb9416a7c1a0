#include "common/collective/shared_slots.h"

#include <utility>

#include "common/base/status.h"

namespace cohort {

absl::StatusOr<std::unique_ptr<SharedSlots>> SharedSlots::Create(size_t slot_bytes,
                                                                 int slots_per_reader,
                                                                 int readers) {
  const size_t aligned = SharedSegment::Aligned(slot_bytes);
  const size_t slots = static_cast<size_t>(slots_per_reader) * static_cast<size_t>(readers);
  COHORT_ASSIGN_OR_RETURN(auto segment,
                          SharedSegment::Create(SharedSegment::kAlignment + slots * aligned));
  return std::unique_ptr<SharedSlots>(
      new SharedSlots(std::move(segment), aligned, slots_per_reader, readers));
}

SharedSlots::SharedSlots(std::unique_ptr<SharedSegment> segment, size_t slot_bytes,
                         int slots_per_reader, int readers)
    : segment_(std::move(segment)),
      slot_bytes_(slot_bytes),
      slots_per_reader_(static_cast<size_t>(slots_per_reader)),
      free_(static_cast<size_t>(readers)),
      tickets_(slots_per_reader_ * static_cast<size_t>(readers)) {
  for (size_t reader = 0; reader < free_.size(); ++reader) {
    free_[reader].reserve(slots_per_reader_);
    for (size_t i = slots_per_reader_; i > 0; --i) {
      const size_t slot = reader * slots_per_reader_ + i - 1;
      free_[reader].push_back(SharedSegment::kAlignment + slot * slot_bytes_);
    }
  }
}

uint64_t SharedSlots::Take(int reader, uint64_t ticket) {
  std::vector<uint64_t>& free = free_[static_cast<size_t>(reader)];
  if (free.empty()) return 0;
  // The slot that was freed last: it is probably still in a cache.
  const uint64_t begin = free.back();
  free.pop_back();
  tickets_[(begin - SharedSegment::kAlignment) / slot_bytes_] = ticket;
  return begin;
}

uint64_t SharedSlots::Release(int reader, uint64_t begin) {
  if (begin < SharedSegment::kAlignment) return 0;
  const uint64_t slot = (begin - SharedSegment::kAlignment) / slot_bytes_;
  const bool fits = (begin - SharedSegment::kAlignment) % slot_bytes_ == 0 &&
                    slot / slots_per_reader_ == static_cast<uint64_t>(reader) &&
                    slot < tickets_.size();
  if (!fits || tickets_[slot] == 0) return 0;
  free_[static_cast<size_t>(reader)].push_back(begin);
  return std::exchange(tickets_[slot], 0);
}

}  // namespace cohort
