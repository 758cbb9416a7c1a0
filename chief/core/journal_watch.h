#ifndef COHORT_CHIEF_CORE_JOURNAL_WATCH_H_
#define COHORT_CHIEF_CORE_JOURNAL_WATCH_H_

#include <absl/status/status.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace cohort {

// Watches how far the journal is behind: which records of this incarnation are durable, how long a
// record has waited for the disk, and the disk's error. It uses the core's clock.
class JournalWatch {
 public:
  // `asked`: the last record that the chief has appended.
  void Tick(uint64_t asked, int64_t now_us) {
    now_us_ = now_us;
    const bool moves = durable_ != durable_at_tick_ || since_us_ < 0;
    durable_at_tick_ = durable_;
    if (durable_ >= asked) {
      since_us_ = -1;
    } else if (moves) {
      since_us_ = now_us;
    }
  }
  // The disk has refused records; the journal tries again.
  void OnRefused(const absl::Status& why) {
    why_ = std::string(why.message());
    ++refusals_;
  }
  // All records up to `record` are durable.
  void OnDurable(uint64_t record) {
    durable_ = std::max(durable_, record);
    why_.clear();
  }

  uint64_t durable_record() const { return durable_; }
  bool refused() const { return !why_.empty(); }
  uint64_t refusals() const { return refusals_; }
  // How long the oldest record has waited to become durable; 0: the journal is not behind.
  int64_t stalled_us() const { return since_us_ < 0 ? 0 : now_us_ - since_us_; }
  // "waiting for the journal: ..., 12 s"; "" if the journal is not slow.
  std::string Waiting() const {
    if (!refused() && stalled_us() < kSlowUs) return "";
    return fmt::format("waiting for the journal: {}, {} s",
                       refused() ? why_ : "the disk does not answer", stalled_us() / 1'000'000);
  }

 private:
  static constexpr int64_t kSlowUs = 3'000'000;  // a disk that is only busy is faster

  uint64_t durable_ = 0;
  uint64_t durable_at_tick_ = 0;
  int64_t since_us_ = -1;
  int64_t now_us_ = 0;
  std::string why_;
  uint64_t refusals_ = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_JOURNAL_WATCH_H_
