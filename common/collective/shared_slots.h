#ifndef COHORT_COMMON_COLLECTIVE_SHARED_SLOTS_H_
#define COHORT_COMMON_COLLECTIVE_SHARED_SLOTS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "common/rpc/push_pull/shared_segment.h"

namespace cohort {

// Memory of this rank that the other ranks of the host read: slots for chunks. Only this rank writes
// it. A slot is taken for one chunk to one reader, and is free again when the reader says that it has
// read the chunk. Each reader has the same number of slots.
class SharedSlots {
 public:
  // Error: ResourceExhausted, with the system's reason.
  static absl::StatusOr<std::unique_ptr<SharedSlots>> Create(size_t slot_bytes,
                                                             int slots_per_reader, int readers);

  const SharedSegment& segment() const { return *segment_; }
  // Takes a slot for the holder of `ticket`, which is not 0. Returns its offset in the segment; 0:
  // none is free.
  uint64_t Take(int reader, uint64_t ticket);
  // Free slots of one reader.
  size_t free_slots(int reader) const { return free_[static_cast<size_t>(reader)].size(); }
  uint8_t* At(uint64_t begin) const { return segment_->At(begin, slot_bytes_).data(); }
  size_t slot_bytes() const { return slot_bytes_; }
  // Frees the slot at `begin`. Returns the ticket of its holder; 0 if this reader has no such slot.
  uint64_t Release(int reader, uint64_t begin);

 private:
  SharedSlots(std::unique_ptr<SharedSegment> segment, size_t slot_bytes, int slots_per_reader,
              int readers);

  const std::unique_ptr<SharedSegment> segment_;
  const size_t slot_bytes_;
  const size_t slots_per_reader_;
  std::vector<std::vector<uint64_t>> free_;  // by reader: offsets
  std::vector<uint64_t> tickets_;            // by slot: of the holder; 0: it is free
};

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_SHARED_SLOTS_H_
