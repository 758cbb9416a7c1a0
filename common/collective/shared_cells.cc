#include "common/collective/shared_cells.h"

#include <utility>

#include "common/base/status.h"

namespace cohort {

absl::StatusOr<std::unique_ptr<SharedCells>> SharedCells::Create(size_t cell_bytes, int cells) {
  const size_t aligned = SharedSegment::Aligned(cell_bytes);
  COHORT_ASSIGN_OR_RETURN(
      auto segment,
      SharedSegment::Create(SharedSegment::kAlignment + static_cast<size_t>(cells) * aligned));
  return std::unique_ptr<SharedCells>(new SharedCells(std::move(segment), aligned, cells));
}

SharedCells::SharedCells(std::unique_ptr<SharedSegment> segment, size_t cell_bytes, int cells)
    : segment_(std::move(segment)), cell_bytes_(cell_bytes), taken_(static_cast<size_t>(cells)) {
  for (size_t cell = taken_.size(); cell-- > 0;) {
    free_.push_back(SharedSegment::kAlignment + cell * cell_bytes_);
  }
}

uint64_t SharedCells::Take() {
  if (free_.empty()) return 0;
  // The cell that was freed last: it is probably still in a cache.
  const uint64_t begin = free_.back();
  free_.pop_back();
  taken_[(begin - SharedSegment::kAlignment) / cell_bytes_] = true;
  return begin;
}

bool SharedCells::Release(uint64_t begin) {
  if (begin < SharedSegment::kAlignment) return false;
  const uint64_t offset = begin - SharedSegment::kAlignment;
  const uint64_t cell = offset / cell_bytes_;
  if (offset % cell_bytes_ != 0 || cell >= taken_.size() || !taken_[cell]) return false;
  taken_[cell] = false;
  free_.push_back(begin);
  return true;
}

}  // namespace cohort
