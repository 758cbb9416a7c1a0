#ifndef COHORT_COMMON_TABLET_VALUE_READER_H_
#define COHORT_COMMON_TABLET_VALUE_READER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "common/tablet/push_pull_views.h"

namespace cohort {

// The values of a dense entry, from front to back.
class ValueReader {
 public:
  explicit ValueReader(const PushEntryView& entry) : entry_(&entry) {}

  // Returns as many whole elements of [begin, begin + size) as lie in one piece. If the first one
  // lies in several pieces, returns that one, copied to `scratch`. `begin` never decreases.
  std::span<const uint8_t> Read(size_t begin, size_t size, size_t element, uint8_t* scratch) {
    if (entry_->pieces.empty()) return entry_->values.subspan(begin, size);
    while (begin >= start_ + piece().size()) Next();
    const size_t offset = begin - start_;
    const size_t whole = std::min(size, piece().size() - offset) / element * element;
    if (whole > 0) return piece().subspan(offset, whole);
    for (size_t done = 0; done < element;) {
      while (begin + done >= start_ + piece().size()) Next();
      const size_t from = begin + done - start_;
      const size_t step = std::min(element - done, piece().size() - from);
      std::memcpy(scratch + done, piece().data() + from, step);
      done += step;
    }
    return {scratch, element};
  }

 private:
  std::span<const uint8_t> piece() const { return entry_->pieces[piece_]; }
  void Next() {
    start_ += piece().size();
    ++piece_;
  }

  const PushEntryView* entry_;
  size_t piece_ = 0;
  size_t start_ = 0;  // where the piece begins
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_VALUE_READER_H_
