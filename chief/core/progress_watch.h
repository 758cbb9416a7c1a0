#ifndef COHORT_CHIEF_CORE_PROGRESS_WATCH_H_
#define COHORT_CHIEF_CORE_PROGRESS_WATCH_H_

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace cohort {

// How far a server has come with a request that takes long, as it reports (v1.TaskProgress). The
// size of a model says nothing about how long that may take: only silence is a failure.
class ProgressWatch {
 public:
  ProgressWatch() = default;
  explicit ProgressWatch(int64_t now_us) : moved_us_(now_us) {}

  // Takes a report. One that has not moved counts for nothing.
  void Note(uint64_t bytes, int64_t now_us) {
    if (bytes <= bytes_) return;
    bytes_ = bytes;
    moved_us_ = now_us;
  }
  // When the server made progress last.
  int64_t moved_us() const { return moved_us_; }
  // "nothing for 300 s after 12.0 GB".
  std::string ToString(int64_t now_us) const {
    return fmt::format("nothing for {} s after {:.3f} GB", (now_us - moved_us_) / 1'000'000,
                       static_cast<double>(bytes_) / 1e9);
  }

 private:
  uint64_t bytes_ = 0;
  int64_t moved_us_ = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_PROGRESS_WATCH_H_
