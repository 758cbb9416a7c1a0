#ifndef COHORT_CHIEF_JOB_RETURN_RULE_H_
#define COHORT_CHIEF_JOB_RETURN_RULE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "common/base/clock.h"

namespace cohort {

// Decides when a replica that was lost may come back: when the same process has answered without a
// gap for a pause. The pause is kFirstPause after the first loss and doubles with each further one,
// up to kLongestPause. After kCalm in the cluster the next loss counts as the first. Pure: the
// caller passes the time.
class ReturnRule {
 public:
  static constexpr Duration kFirstPause = std::chrono::seconds(1);
  static constexpr Duration kLongestPause = std::chrono::minutes(2);
  static constexpr Duration kCalm = std::chrono::minutes(10);

  // `now`: when the job began to use the replica.
  explicit ReturnRule(TimePoint now) : used_since_(now) {}

  // The job uses the replica from now on.
  void OnUsed(TimePoint now) {
    used_since_ = now;
    process_.reset();
  }
  void OnLost(TimePoint now) {
    pause_ = IsFirstLoss(now) ? kFirstPause : std::min(2 * pause_, kLongestPause);
    process_.reset();
  }
  // The job cannot use this process.
  void OnRefused(uint64_t process) { refused_ = process; }

  // `process`: the incarnation that answers now; nullopt: there is none.
  void OnAnswer(std::optional<uint64_t> process, TimePoint now) {
    if (process == refused_) process.reset();
    if (process == process_) return;
    process_ = process;
    answers_since_ = now;
  }

  // True if a loss at this time is the first one, or the first one after a calm time.
  bool IsFirstLoss(TimePoint now) const {
    return pause_ == Duration::zero() || now - used_since_ >= kCalm;
  }
  bool IsReady(TimePoint now) const {
    return process_.has_value() && now - answers_since_ >= pause_;
  }
  Duration pause() const { return pause_; }
  std::optional<uint64_t> process() const { return process_; }

 private:
  Duration pause_ = Duration::zero();  // zero: it was never lost
  TimePoint used_since_;
  std::optional<uint64_t> process_;
  TimePoint answers_since_;
  std::optional<uint64_t> refused_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_RETURN_RULE_H_
