#ifndef COHORT_CHIEF_CORE_JOURNAL_WATCH_H_
#define COHORT_CHIEF_CORE_JOURNAL_WATCH_H_

#include <absl/status/status.h>

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace cohort {

// How far the journal is behind what it was asked for: since when no record has become durable
// although one is due, and what the disk said. Time is the core's.
class JournalWatch {
 public:
  // `asked` and `durable`: the last record of each kind.
  void Tick(uint64_t asked, uint64_t durable, int64_t now_us) {
    now_us_ = now_us;
    const bool moves = durable != durable_ || since_us_ < 0;
    durable_ = durable;
    if (durable >= asked) {
      since_us_ = -1;
    } else if (moves) {
      since_us_ = now_us;
    }
  }
  // The disk has refused to take records; it is tried again.
  void OnRefused(const absl::Status& why) {
    why_ = std::string(why.message());
    ++refusals_;
  }
  void OnDurable() { why_.clear(); }

  bool refused() const { return !why_.empty(); }
  uint64_t refusals() const { return refusals_; }
  // 0: it is not behind.
  int64_t stalled_us() const { return since_us_ < 0 ? 0 : now_us_ - since_us_; }
  // "waiting for the journal: ..., 12 s"; "" where there is nothing to tell.
  std::string Waiting() const {
    if (!refused() && stalled_us() < kSlowUs) return "";
    return fmt::format("waiting for the journal: {}, {} s",
                       refused() ? why_ : "the disk does not answer", stalled_us() / 1'000'000);
  }

 private:
  static constexpr int64_t kSlowUs = 3'000'000;  // longer than a disk takes that is only busy

  uint64_t durable_ = 0;
  int64_t since_us_ = -1;
  int64_t now_us_ = 0;
  std::string why_;
  uint64_t refusals_ = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_JOURNAL_WATCH_H_
