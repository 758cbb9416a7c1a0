#include "common/os/stall_watch.h"

#include <algorithm>

namespace cohort {

constexpr std::chrono::seconds kInterval{1};

void StallWatch::Look(const std::vector<uint64_t>& turns) {
  const TimePoint now = clock_->Now();
  // A look that comes much too late follows a pause of the process: nobody could turn.
  const Duration since = std::min<Duration>(now - last_look_, 2 * kInterval);
  last_look_ = now;
  next_look_ = now + kInterval;
  const size_t known = loops_.size();
  loops_.resize(turns.size());
  longest_ = Duration::zero();
  for (size_t i = 0; i < turns.size(); ++i) {
    Loop& loop = loops_[i];
    const bool stands = i < known && turns[i] == loop.turns;
    loop.still = stands ? loop.still + since : Duration::zero();
    loop.turns = turns[i];
    longest_ = std::max(longest_, loop.still);
  }
}

}  // namespace cohort
