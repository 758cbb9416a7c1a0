#ifndef COHORT_COMMON_COLLECTIVE_SHARED_CELLS_H_
#define COHORT_COMMON_COLLECTIVE_SHARED_CELLS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "common/rpc/push_pull/shared_segment.h"

namespace cohort {

// Memory of this rank that the next rank reads, if it is on the same host: cells for chunks. Only
// this rank writes it. A cell is taken for one chunk, and is free again when the reader says that
// it has read the chunk.
class SharedCells {
 public:
  // Error: ResourceExhausted, with the system's reason.
  static absl::StatusOr<std::unique_ptr<SharedCells>> Create(size_t cell_bytes, int cells);

  const SharedSegment& segment() const { return *segment_; }
  // Takes a cell. Returns its offset in the segment; 0: none is free.
  uint64_t Take();
  uint8_t* At(uint64_t begin) const { return segment_->At(begin, cell_bytes_).data(); }
  // Frees the cell at `begin`. Returns false if there is none that is taken.
  bool Release(uint64_t begin);

 private:
  SharedCells(std::unique_ptr<SharedSegment> segment, size_t cell_bytes, int cells);

  const std::unique_ptr<SharedSegment> segment_;
  const size_t cell_bytes_;
  std::vector<uint64_t> free_;  // offsets
  std::vector<bool> taken_;     // by cell
};

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_SHARED_CELLS_H_
