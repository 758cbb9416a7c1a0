#include "common/tablet/value_runs.h"

#include <algorithm>
#include <utility>

namespace cohort {
namespace {

// Only the list references it.
bool IsSpare(const BufferRef& run) { return run.unique(); }

}  // namespace

BufferRef ValueRuns::Next() {
  auto found = std::find_if(runs_.begin(), runs_.end(), IsSpare);
  if (found == runs_.end()) {
    BufferRef run = allocate_ ? allocate_(bytes_) : BufferRef();
    runs_.push_back(run ? std::move(run) : BufferRef::Allocate(bytes_));
    found = runs_.end() - 1;
  }
  BufferRef next = *found;
  newest_ = next.get();
  for (const BufferRef& run : runs_) {
    if (BufferMemory* const memory = run->memory()) {
      memory->superseded.store(run.get() != next.get(), std::memory_order_relaxed);
    }
  }
  NoteVersion();
  return next;
}

size_t ValueRuns::superseded_bytes() const {
  return bytes_ * static_cast<size_t>(std::ranges::count_if(runs_, [this](const BufferRef& run) {
           return run.get() != newest_ && !IsSpare(run);
         }));
}

void ValueRuns::DropSpare() {
  std::erase_if(runs_, IsSpare);
  unneeded_ = 0;
}

void ValueRuns::NoteVersion() {
  const auto spare = static_cast<size_t>(std::count_if(runs_.begin(), runs_.end(), IsSpare));
  unneeded_ = versions_ == 0 ? spare : std::min(unneeded_, spare);
  if (++versions_ < kWindow) return;
  versions_ = 0;
  std::erase_if(runs_, [this](const BufferRef& run) {
    if (unneeded_ == 0 || !IsSpare(run)) return false;
    --unneeded_;
    return true;
  });
}

}  // namespace cohort
