#ifndef COHORT_COMMON_DATA_RECORDS_LINES_OF_RECORDS_H_
#define COHORT_COMMON_DATA_RECORDS_LINES_OF_RECORDS_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace cohort {

// The line on which each record of a text file starts. Most files have a record on each line, so
// only the others are kept.
class LinesOfRecords {
 public:
  void Add(uint64_t line) {
    if (ahead_.empty() || line - records_ != ahead_.back().second) {
      ahead_.emplace_back(records_, line - records_);
    }
    ++records_;
  }
  uint64_t LineOf(uint64_t record) const {
    const auto next =
        std::upper_bound(ahead_.begin(), ahead_.end(), record,
                         [](uint64_t r, const auto& entry) { return r < entry.first; });
    return record + std::prev(next)->second;
  }

 private:
  uint64_t records_ = 0;
  std::vector<std::pair<uint64_t, uint64_t>> ahead_;  // from this record on: line - record
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_RECORDS_LINES_OF_RECORDS_H_
